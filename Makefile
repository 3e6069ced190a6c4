# Every target sets up what it needs in its own .venv with plain pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench clean

help:  ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "motifair needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

demo: $(STAMP)  ## ten agents on the embedded dataset: who contributed, who was paid, how fair it was
	$(BIN)/motifair run --out runs/demo

test: $(STAMP)  ## the whole suite, doctests and coverage included
	scripts/test.sh $(BIN) $(JOBS)

lint: $(STAMP)  ## style, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)  ## the time of a round against a naive loop and the GEMM bound
	$(BIN)/motifair bench --device cpu

clean:  ## remove what make made
	rm -rf $(VENV) runs build dist bench.json agents.png .coverage* .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
