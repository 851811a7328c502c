# One environment in .venv, made and kept up to date by whichever target needs it first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501

.PHONY: app test fast lint bench bench-app demo figures clean

app: $(VENV)/.runtime
	$(BIN)/streamlit run app.py --server.port $(PORT) < /dev/null

test: $(VENV)/.dev lint
	$(BIN)/pytest -n auto --dist worksteal

fast: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist worksteal -m "not slow and not browser"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.run

bench-app: $(VENV)/.dev
	$(BIN)/python -m benchmarks.app

# What Home shows before anyone has fitted anything, and the README's pictures: made by scripts, kept in the repository.
demo: $(VENV)/.dev
	$(BIN)/python assets/make_demo.py

figures: $(VENV)/.dev
	$(BIN)/python docs/make_pictures.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/.dev: $(VENV)/bin/python requirements.txt requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
