# Every target sets up what it needs in its own .venv with plain pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.base
DEV := $(VENV)/.dev
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
JOBS ?= 2
# Processes of the tests share what one of them has compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint docs pictures bench clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "motifair needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml | $(BIN)/python
	$(INSTALL) .
	@touch $@

# To compile every module of every package takes a minute, and a third of them are imported.
$(DEV): pyproject.toml | $(BIN)/python
	$(INSTALL) ".[dev]" --no-compile
	@touch $@ $(BASE)

demo: $(BASE)  ## ten agents on the embedded dataset: who contributed, who was paid, how fair it was
	$(BIN)/motifair run --set test_fraction=0.85 --out runs/demo

test: $(DEV)  ## what needs nothing but Python: under five minutes
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m quick --durations=15

test-all: $(DEV)  ## the whole suite with its coverage: PostgreSQL, browser, federations, real data
	scripts/test.sh $(BIN) $(JOBS)

lint: $(DEV)  ## style, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(DEV)  ## the documentation as pages in site/, its notebooks run; `python3 -m http.server -d site` for the search
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

pictures: $(DEV)  ## docs/images made anew from the demo and a small federation: needs a Chromium
	$(BIN)/python scripts/pictures.py

bench: $(BASE)  ## the time of a round against a naive loop and the GEMM bound
	$(BIN)/motifair bench --device cpu

clean:  ## remove what make made
	rm -rf $(VENV) runs build dist site bench.json agents.png .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
