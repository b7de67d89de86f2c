"""`python -m kernmend`, and where the command `kernmend` begins."""

import sys


def main() -> None:
    """Run the command line. What takes time to import is imported here: Ctrl-C ends that too without a traceback."""
    try:
        from kernmend.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
