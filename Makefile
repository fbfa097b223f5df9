# Every target makes the virtual environment it needs. `make quickstart` is the place to start.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A folder of the repository must never stand in for the installed package of the same name.
export PYTHONSAFEPATH := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Vision models are not hosted, so their part of llama.cpp need not be compiled.
export CMAKE_ARGS ?= -DLLAVA_BUILD=OFF

PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --quiet
INSTALL := $(PIP) install --constraint constraints.txt
PACKAGES := edge_runner agents configs devices rag tui workloads
# The installed package is a tree of links to single files: a new file means a new tree.
FOLDERS := $(shell find $(PACKAGES) -type d -not -name __pycache__)

.PHONY: quickstart test check format docs bench-harness bench-summary clean help

help:
	@echo "make quickstart     install, fetch a model, run the quickstart replay, print the table"
	@echo "make test           all tests (fetches two small models the first time)"
	@echo "make check          lint, types, import rules"
	@echo "make docs           write the pages that are made from code"
	@echo "make bench-harness  what the harness itself costs per turn"
	@echo "make bench-summary  time and memory of the summary of 100,000 turns"

$(VENV)/base: constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade $$(grep -E '^(pip|setuptools)==' constraints.txt)
	@echo "installing; llama.cpp is compiled the first time, which takes some minutes"
	$(INSTALL) --config-settings editable_mode=strict --editable '.[all]'
	@touch $@

$(VENV)/installed: $(VENV)/base $(FOLDERS)
	$(PIP) install --no-deps --no-build-isolation --config-settings editable_mode=strict --editable .
	@touch $@

$(VENV)/dev: $(VENV)/base
	$(INSTALL) --group dev
	@touch $@

quickstart: $(VENV)/installed
	$(BIN)/edge-runner run configs/agentic-quickstart.yaml

test: $(VENV)/installed $(VENV)/dev
	$(BIN)/python -m pytest

# mypy and lint-imports start outside the root, where folder names would hide the package.
check: $(VENV)/installed $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd tests && ../$(BIN)/mypy --config-file ../pyproject.toml --package edge_runner
	cd tests && ../$(BIN)/lint-imports ../pyproject.toml

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/installed
	$(BIN)/python docs/generate.py

bench-harness: $(VENV)/installed
	$(BIN)/python tests/benchmarks/harness.py

bench-summary: $(VENV)/installed
	PYTHONPATH=tests $(BIN)/python tests/benchmarks/summary.py

clean:
	rm -rf $(VENV) build
