"""How Sphinx builds the site: `make docs`. Nothing is fetched, neither by the build nor by who reads it from disk."""

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # pages are read by two processes of one thread each

from live_report import GENERATED, live_report  # noqa: E402
from sphinx_gallery.sorting import FileNameSortKey  # noqa: E402

from kernmend import __version__  # noqa: E402

(GENERATED / "reports").mkdir(parents=True, exist_ok=True)

project = "kernmend"
author = "the kernmend maintainers"
copyright = f"2026, {author}"
release = version = __version__
language = "en"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "plain_formulas",
    "mathml",
    "run",
    "source_lines",
]
exclude_patterns = ["_build", "_generated", "_ext", "_templates", "auto_examples/**/*.ipynb", "**/*.py.md5"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
html_math_renderer = "mathml"
default_role = "py:obj"
pygments_style = "default"

# --- Markdown pages ---------------------------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "substitution"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

# --- the API reference ------------------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False


# --- the gallery ------------------------------------------------------------------------------------------------------
LIMIT = 20.0  # CPU seconds of an example, on a machine that may be busy
STARTED: dict[str, float] = {}


def clock(gallery_conf: dict, fname: str, when: str) -> None:
    """Stop the build where an example takes too long, with its processes: a reader should not wait for it either."""
    now = sum(os.times()[:4])  # of this process and of those that it has waited for
    if when == "before":
        STARTED[fname] = now
    elif (seconds := now - STARTED.pop(fname, now)) > LIMIT:
        raise RuntimeError(f"{fname} took {seconds:.0f} s of CPU time, {LIMIT:.0f} are allowed")


def style(gallery_conf: dict, fname: str) -> None:
    """Let the pictures of every example look alike."""
    import matplotlib

    matplotlib.rcParams.update(
        {
            "font.size": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 12,
            "savefig.bbox": "tight",
        }
    )


sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples")],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": FileNameSortKey,
    "image_scrapers": ("matplotlib", live_report),
    "reset_modules": ("matplotlib", style, clock),
    "reset_modules_order": "both",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "write_computation_times": False,  # its page would load scripts from other hosts
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1000,
    "ignore_repr_types": r"matplotlib\.",  # "<matplotlib.legend.Legend object at 0x...>" tells a reader nothing
    "remove_config_comments": True,
    "parallel": 2,
    "plot_gallery": "True",
    "thumbnail_size": (600, 420),
    "image_srcset": ["2x"],
}
warnings.filterwarnings("ignore", category=UserWarning, message="Matplotlib is currently using agg")

# --- the pages --------------------------------------------------------------------------------------------------------
REPOSITORY = "https://github.com/kernmend/kernmend"
PAPER = [f"reproduction/{page.stem}" for page in HERE.glob("reproduction/*.md")]
EXAMPLES = ["auto_examples/index", *(f"auto_examples/{page.stem}" for page in ROOT.glob("examples/plot_*.py"))]
WIDE = ["real", "benchmarks", "measured", "joint", "which_method", "reproduction", *PAPER, *EXAMPLES]
html_theme = "pydata_sphinx_theme"
html_title = "kernmend"
html_static_path = ["_static", "_generated"]
html_css_files = ["kernmend.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_copy_source = False
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_sidebars = {name: [] for name in ("index", "start", "changelog", "contributing", "glossary", "when_not")}
html_theme_options = {
    "logo": {"text": "kernmend", "alt_text": "kernmend"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    # Pages of wide tables and of long lines of code have the whole width.
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in WIDE}},
    "icon_links": [{"name": "GitHub", "url": REPOSITORY, "icon": "fa-brands fa-github", "type": "fontawesome"}],
    "back_to_top_button": False,
    "show_nav_level": 1,
}
copybutton_exclude = ".linenos, .gp, .go"
