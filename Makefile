# One environment in .venv, made and kept up to date by whichever target needs it first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501
# Tests run in parallel, so each process keeps its numerical libraries to one thread. Tests start many processes: bytecode is
# always cached, even where the environment forbids it.
ONE_THREAD := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# A browser test that fails once and then passes is printed as flaky and does not fail the run.
BROWSER := $(ONE_THREAD) $(BIN)/pytest -n 2 --reruns 1 tests/browser

.PHONY: app test test-all fast lint bench bench-app numbers pages demo docs audit clean

app: $(VENV)/.installed
	$(BIN)/gdm studio --port $(PORT)

test: $(VENV)/.dev lint
	$(ONE_THREAD) $(BIN)/pytest -n auto -m "not browser and not bulk"
	$(BROWSER) -m "not bulk"

# What `make test` leaves out; run before a release.
test-all: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/pytest -n auto -m "bulk and not browser"
	$(BROWSER) -m bulk

fast: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/pytest -n auto -m "not bulk and not browser"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.speed

bench-app: $(VENV)/.dev
	$(BIN)/python -m benchmarks.browser

# Measure every number that README and docs state into docs/results.json and write it into the pages.
numbers: $(VENV)/.dev
	$(BIN)/python -m benchmarks.results
	$(BIN)/python -m docs.render

pages: $(VENV)/.dev
	$(BIN)/python -m docs.render

# The results that Home shows on a first visit; they are kept in the repository.
demo: $(VENV)/.dev
	$(BIN)/python assets/make_demo.py
	$(BIN)/python assets/make_mice.py

# Build the documentation in build/site (open index.html).
docs: $(VENV)/.dev
	$(BIN)/python -m docs.site.make

# Look up known vulnerabilities of the pinned packages. This needs a network.
audit: $(VENV)/.dev
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	build/audit/bin/pip-audit --requirement requirements.txt

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || \
		{ echo "Python 3.11 to 3.14 is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/.dev: $(VENV)/bin/python requirements.txt requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@ $(VENV)/.runtime

# The command and exported scripts find this checkout from any folder.
$(VENV)/.installed: pyproject.toml | $(VENV)/.runtime
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
