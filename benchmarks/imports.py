"""How long imports take, each in a fresh interpreter, the best of five."""

import subprocess
import sys
import time

STATEMENTS = {
    "sklearn.decomposition": "import sklearn.decomposition",
    "kernmend": "import kernmend",
    "kernmend.KernelRecovery": "from kernmend import KernelRecovery",
    "kernmend --help": "import sys; sys.argv = ['kernmend', '--help']; from kernmend.cli.main import main; main()",
}


def run() -> None:
    print("| import | seconds | against sklearn.decomposition |")
    print("|---|---|---|")
    base = _best("pass")
    reference = _best(STATEMENTS["sklearn.decomposition"]) - base
    for name, statement in STATEMENTS.items():
        seconds = _best(statement) - base
        print(f"| {name} | {seconds:.2f} | {seconds / reference:.2f} |")


def _best(statement: str) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)
