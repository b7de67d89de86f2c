"""The pages keep up with the code: nothing is left out, links lead somewhere, one word means one thing.

The blocks of the pages below run here, because they are quick. Those of all other pages, and the examples of the
gallery, run in `make docs`, which shows what they print and fails where one does.
"""

import ast
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import kernmend
from kernmend import datasets, estimators
from kernmend.cli.main import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WHICH_METHOD = DOCS / "which_method.md"
FENCE = re.compile(r"^(`{3,}|:{3,})(.*)$", re.MULTILINE)
PYTHON = re.compile(r"^```\{run\} python\n(?::[^\n]*\n)*(.*?)^```", re.DOTALL | re.MULTILINE)
RUN = re.compile(r"^```\{run\} \w+\n(?::[^\n]*\n)*(.*?)^```", re.DOTALL | re.MULTILINE)
WIDEST = 92  # characters of a line of code on a page: what a screen of 1280 pixels shows without scrolling
BLOCKS = [
    pytest.param(block, id=f"{name}-{number}")
    for name in ("which_method", "files")  # tests/model runs new_kernel and new_error
    for number, block in enumerate(PYTHON.findall((DOCS / f"{name}.md").read_text()))
]
LARGE = "\n".join(PYTHON.findall((DOCS / "large.md").read_text()))
# Pages by hand; those that commands write have their own tests.
GENERATED = {"real.md", "benchmarks.md"}
GUIDE = [page for page in DOCS.glob("guide/*.md") if page.stem != "index"]
TASKS = ("files", "large", "which_method")  # pages of the guide that stand one folder above it
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("guide/*.md"), DOCS / "api" / "index.md"])
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_estimator_is_in_the_table_of_methods(name):
    rows = [line for line in WHICH_METHOD.read_text().splitlines() if line.startswith("|")]
    assert any(f"`{name}" in line.split("|")[1] for line in rows)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    """Links within the built site are checked by `make docs`, with their anchors."""
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target
    for target in re.findall(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", text):
        home = DOCS if target.startswith("/") else page.parent
        target = target.removeprefix("/")
        if target.startswith("auto_examples/plot_"):
            assert (ROOT / "examples" / f"{Path(target).name}.py").exists(), target
        elif target != "auto_examples/index":
            assert (home / f"{target}.md").exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_code_is_run(page):
    """A fence is a directive, or plain text that nobody runs: no other block of code can grow old unseen."""
    opened = None
    for marks, info in FENCE.findall(page.read_text()):
        if opened is not None and not info.strip() and marks == opened[-1]:
            opened = opened[:-1] or None
            continue
        assert info.startswith("{") or info == "text", f"{page.name}: {marks}{info}"
        opened = [*(opened or []), marks]
    assert opened is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_block_of_code_is_indented(page):
    """Such a block would be shown and never run. Benchmarks take hours: the page that one writes may begin with it."""
    text = re.sub(r"^(```|:::).*?^\1", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"\n\n {4,}(?!python -m benchmarks )\S", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_lines_of_code_fit_a_screen(page):
    lines = [line for block in RUN.findall(page.read_text()) for line in block.splitlines()]
    assert [line for line in lines if len(line) > WIDEST] == []


@pytest.mark.parametrize("page", sorted([*GUIDE, *(DOCS / f"{name}.md" for name in TASKS)]), ids=lambda page: page.stem)
def test_a_page_of_the_guide_answers_its_task_on_the_first_screen(page):
    """A block that runs stands above the first heading below the title, after a few lines of text."""
    first = page.read_text().partition("\n## ")[0]
    shown = re.search(r"^```\{run\} \w+\n(?!:hidden:)", first, re.MULTILINE)
    assert shown
    assert len(prose(first[: shown.start()]).split()) < 90


def test_every_option_of_every_command_is_on_the_page():
    text = (DOCS / "command_line.md").read_text()
    missing = {
        option
        for name, command in cli.commands.items()
        if name not in ("demo", "paper")
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--") and not re.search(rf"`{option}[` ]", text)
    }
    assert missing == set()


@pytest.mark.parametrize("block", [*BLOCKS, pytest.param(LARGE, id="large")])
def test_the_examples_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "<docs>", "exec"), {"__name__": "docs"})


def test_the_tables_of_the_reproduction_are_those_of_its_pages():
    """No figure is typed by hand: what the document shows, a page that `kernmend paper` wrote has, line by line."""
    pages = {line for page in ROOT.glob("docs/reproduction/*.md") for line in page.read_text().splitlines()}
    text = (DOCS / "reproduction.md").read_text()
    tables = text[text.index("## Table 1") :]
    lines = [line for line in tables.splitlines() if line.startswith("|")]
    assert len(lines) > 20
    assert [line for line in lines if line not in pages] == []


# --- the gallery ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topic",
    [
        *("circle_and_swiss_roll", "digits_noise_and_cover", "wrong_cells", "missing_values", "raman_cosmic_rays"),
        *("stuck_sensor", "a_classifier_that_gains", "a_classifier_that_does_not", "new_rows_and_a_saved_model"),
        *("a_kernel_of_your_own", "the_papers_model", "landmarks", "dask"),
    ],
)
def test_the_gallery_has(topic):
    assert [example for example in EXAMPLES if example.stem.split("_", 2)[2] == topic]


def test_reports_are_shown_live_in_the_gallery():
    writing = [example for example in EXAMPLES if ".report(" in example.read_text()]
    assert len(writing) >= 2


def test_an_example_that_takes_too_long_stops_the_build():
    """The limit is one of CPU time, with that of its processes. Without Sphinx only this part of conf.py can run."""
    tree = ast.parse((DOCS / "conf.py").read_text())
    wanted = [node for node in tree.body if getattr(node, "name", "") == "clock" or "LIMIT" in ast.dump(node)[:200]]
    names = {"STARTED": {}, "os": SimpleNamespace(times=lambda: clock)}
    exec(compile(ast.Module(wanted, []), "conf.py", "exec"), names)
    clock = (0.0, 0.0, 0.0, 0.0, 99.0)
    names["clock"]({}, "plot_x", "before")
    clock = (4.0, 1.0, 14.0, 1.0, 999.0)
    names["clock"]({}, "plot_x", "after")
    names["clock"]({}, "plot_y", "before")
    clock = (8.0, 2.0, 30.0, 2.0, 999.0)
    with pytest.raises(RuntimeError, match=r"plot_y took 22 s of CPU time, 20 are allowed"):
        names["clock"]({}, "plot_y", "after")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_title_a_picture_and_its_own_data(example):
    text = example.read_text()
    title, line, *_ = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert "plt.subplots(" in text
    assert not re.search(r"KERNMEND_DATA|load_coil20|/work|fetch_|https?://", text)


# --- one word for one thing -------------------------------------------------------------------------------------------

# What is not said, and the word of the glossary that is said instead.
NOT_SAID = {
    r"anomal(y|ies|ous)": "wrong, or flagged",
    r"impute[sd]?|imputation": "fill in",
    r"repair(s|ed|ing)?": "mend",
    r"plant(s|ed|ing)?": "inject",
    r"suspicio(n|us)": "suspect, score",
    r"observations?|data points?|records?": "row",
    r"cutoffs?": "cut-off",
    r"thresh": "threshold",
}
BY_HAND = [page for page in PAGES if page.name not in {*GENERATED, "changelog.md", "contributing.md"}]


def prose(text):
    """A page without its code, links' targets and directives' options."""
    text = re.sub(
        r"^```\{(run|raw|toctree|eval-rst|equations|image)\}.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"\{\w+\}`[^`]*`|`[^`]*`|\]\([^)]*\)|^:.*$|^ {4,}.*$", "", text, flags=re.MULTILINE)
    return text.lower()


def said(text):
    """What a text says that is not said, each with the word that is."""
    found = {word: re.search(rf"\b({word})\b", text) for word in NOT_SAID}
    return [f"{match[0]!r}: say {NOT_SAID[word]!r}" for word, match in found.items() if match]


@pytest.mark.parametrize(
    "page",
    [*BY_HAND, ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "examples" / "README.rst"],
    ids=lambda page: page.name,
)
def test_one_word_for_one_thing(page):
    assert said(prose(page.read_text())) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_say_the_same_words(example):
    text = example.read_text()
    comments = re.findall(r"^# (.*)$", text, re.MULTILINE)
    assert said(prose("\n".join([ast.get_docstring(ast.parse(text)) or "", *comments]))) == []


@pytest.mark.parametrize("name", [*kernmend.__all__, *datasets.__all__])
def test_docstrings_say_the_same_words(name):
    public = getattr(kernmend, name) if name in kernmend.__all__ else getattr(datasets, name)
    text = inspect.getdoc(public) if callable(public) else ""
    assert said(prose(re.sub(r"^(>>>|\.\.\.).*$", "", text or "", flags=re.MULTILINE))) == []


@pytest.mark.parametrize(
    "term", ["row", "cell", "flag", "score", "threshold", "reference", "inject", "mend", "landmark"]
)
def test_the_glossary_has(term):
    assert re.search(rf"^{term}\n    \S", (DOCS / "glossary.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", sorted(DOCS.glob("guide/*.md")), ids=lambda page: page.stem)
def test_the_guide_says_cell_where_it_means_one(page):
    """In Python the names contain "entry"; in prose it is a cell."""
    assert not re.search(r"\b(entry|entries)\b", prose(page.read_text()))


# --- the newcomer -----------------------------------------------------------------------------------------------------


def test_a_newcomer_gets_to_a_mended_file_in_three_clicks():
    """Front page, "Start here", and there the command that mends a file stands with what it printed."""
    assert re.search(r"```\{button-ref\} start\n", (DOCS / "index.md").read_text())
    start = (DOCS / "start.md").read_text()
    assert re.search(r"```\{run\} bash\n:keep: clean.csv.*\nkernmend mend \S+\.csv -o clean\.csv", start)
    assert "{download}`clean.csv" in start  # and the file itself, for those who only want to see one
