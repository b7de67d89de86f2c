# Everything on a machine with Python 3.11+ and make: the environment is made on first use and again when
# pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two test processes of one thread each: on 2 cores faster than one of two. Each takes whole files (loadfile), so
# that what the tests of a file share is made once, in the order of their names: the long ones come early.
TEST_ENV := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# What opens a report in a browser. Machines without npm do without: the test says so.
BROWSER := tests/report/browser/node_modules/.ready

# The same environment with what the site needs, and nothing else of the tests: quick in a fresh clone.
DOCS_READY := $(VENV)/.docs-ready
# An environment with the oldest versions of the dependencies that pyproject.toml allows.
MINIMUM := .venv-minimum

.PHONY: demo docs readme test test-minimum lint bench figures screenshots browser paper dist clean

demo: $(READY)
	$(BIN)/kernmend demo --out demo --force

# The site, in docs/_build/html: all examples and all blocks of all pages run, every warning is an error, nothing is
# fetched; then links, anchors and requests to other hosts are checked.
docs: $(DOCS_READY)
	$(TEST_ENV) $(BIN)/python -m sphinx -b html -j 2 -W --keep-going -q docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

# The figures of the README, as `kernmend demo` prints them now; a test compares them.
readme: $(READY)
	$(BIN)/python -m benchmarks readme

# With the share of the lines of src that ran, files without a gap left out; below 95 % it fails. Lines are counted in
# the first case of each test only (tests/conftest.py), since counting costs time.
test: $(READY) browser
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q --cov=kernmend --cov-report=term:skip-covered --cov-fail-under=95

# Which tests: all, or TESTS="tests/io tests/test_mend.py". Old packages beside new ones warn of each other (matplotlib
# 3.8 of pyparsing 3.3): what is out of date there is no error here. zarr 3.1.0 brings the crc32c of which
# the newest numcodecs warns on standard error; google-crc32c is what later versions of zarr bring.
TESTS ?= tests src
test-minimum:
	$(PYTHON) -m venv $(MINIMUM)
	$(MINIMUM)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(MINIMUM)/bin/uv pip install --quiet --python $(MINIMUM)/bin/python --resolution lowest-direct '.[io,report,datasets,dask,test]' 'google-crc32c>=1.5'
	$(TEST_ENV) $(MINIMUM)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q -W ignore::DeprecationWarning $(TESTS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

figures: $(READY)
	$(BIN)/kernmend demo --out demo --force && cp demo/circle.png docs/images/
	$(BIN)/python -m benchmarks methods-picture

screenshots: $(READY) $(BROWSER)
	$(BIN)/python -m benchmarks report-pictures

paper: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/kernmend paper all --jobs 2 --out paper

# What goes to PyPI, checked: the README is rendered, the contents and sizes are looked at.
dist: $(DOCS_READY)
	rm -rf dist
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python docs/check_dist.py dist

$(DOCS_READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kernmend needs Python 3.11 or newer; say make PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[report,datasets,dev]'
	@touch $@

browser:
	@if command -v npm > /dev/null; then $(MAKE) --no-print-directory $(BROWSER); else echo "no npm: the report is not tested in a browser"; fi

$(BROWSER): tests/report/browser/package-lock.json
	cd tests/report/browser && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

clean:
	rm -rf $(VENV) $(MINIMUM) tests/report/browser/node_modules demo build dist docs/_build docs/_generated docs/auto_examples docs/api/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .coverage
