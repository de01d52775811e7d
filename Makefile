# make demo, make test: everything that is needed is set up first, in .venv, with the versions of
# constraints.txt. A second call installs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
# Stamps: an environment is renewed when what it is made from has changed.
BASE := $(VENV)/.base
TEST := $(VENV)/.test
LINT := $(VENV)/.lint
PEERS := $(VENV)/.peers

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-benchmarks cluster-test check format bench certainty clean

help:
	@echo "make demo       take a small encoder apart in a minute or two, write demo/report.html"
	@echo "make test       all tests of the package"
	@echo "make test-fast  all but the slow ones"
	@echo "make test-benchmarks  tests of the scripts in benchmarks/, and of the pages that they write"
	@echo "make cluster-test  executors on a real Slurm and a Ray cluster, with kill -9 (root, Debian; an hour)"
	@echo "make check      lint, types and import floors"
	@echo "make format     bring the code into the house form"
	@echo "make bench      speed and memory, against the hardware and against other packages"
	@echo "make certainty  coverage of the intervals and size of the tests, by simulation"

$(BASE): pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
	  { echo "microtome needs Python 3.11 or later; try make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt pip
	$(PIP) install -c constraints.txt torch==2.13.0
	$(PIP) install -c constraints.txt --build-constraint constraints.txt -e .
	@touch $@

$(TEST): $(BASE)
	$(PIP) install -c constraints.txt --group test --group page
	@touch $@

$(LINT): $(TEST)
	$(PIP) install -c constraints.txt --group lint
	@touch $@

$(PEERS): $(TEST)
	$(PIP) install -c constraints.txt --group peers
	@touch $@

demo: $(BASE)
	$(BIN)/microtome demo

test: $(TEST)
	$(BIN)/python -m pytest -q -n auto --ignore tests/benchmarks

test-fast: $(TEST)
	$(BIN)/python -m pytest -q -n auto --ignore tests/benchmarks -m "not slow"

test-benchmarks: $(TEST)
	$(BIN)/python -m pytest -q -n auto tests/benchmarks

cluster-test: $(TEST)
	$(BIN)/python tests/cluster/contract.py
	$(BIN)/python tests/cluster/real.py
	$(BIN)/python tests/cluster/kills.py
	$(BIN)/python tests/cluster/study.py

check: $(LINT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(LINT)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(PEERS)
	$(BIN)/python benchmarks/run.py

certainty: $(TEST)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/certainty.py --processes $$(nproc)

clean:
	rm -rf $(VENV) demo build dist
