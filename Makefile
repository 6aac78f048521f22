# Needs make and Python 3.11 or later; everything else goes into .venv, in the versions of requirements.lock.
#
#   make ce_gain      the main job: set-up, then results/tables/ce_gain.csv and iso_loss_gain.csv
#   make test         the fast tests
#   make slow-tests   the end-to-end tests;  make all-tests  both
#   make checks       lint, format, types, rules;  make format  applies what can be applied
#   make lock         bring requirements.lock in line with pyproject.toml
#
# torch comes from pip's own index and is the only package without a hash: which build it is depends on the
# machine. To take a CPU build on Linux, name PyTorch's index of CPU wheels once:
#   make install TORCH_OPTIONS="--index-url ADDRESS"

PYTHON ?= $(shell for python in python3.11 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
TORCH_OPTIONS ?=
JOBS ?= auto
CORES ?= all
VENV ?= .venv
STAMP := $(VENV)/installed
IN_VENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
GAINS := results/tables/ce_gain.csv results/tables/iso_loss_gain.csv
PYTEST := $(IN_VENV) python -m pytest -n $(JOBS) --maxprocesses 4

.PHONY: ce_gain install test slow-tests all-tests checks format lock

ce_gain: $(STAMP)
	$(IN_VENV) snakemake --cores $(CORES) $(GAINS)
	@echo "CE gain and iso-loss gain: $(GAINS)"

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or later found; say which: make PYTHON=..." >&2; exit 1; }
	test -x $(VENV)/bin/python || "$(PYTHON)" -m venv $(VENV)
	$(VENV)/bin/python -m pip install --require-hashes -r requirements.lock
	$(VENV)/bin/python -m pip install $(TORCH_OPTIONS) "$$(sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)"
	$(VENV)/bin/python -m pip install --no-deps --no-build-isolation -e .
	touch $@

test: $(STAMP)
	$(PYTEST) -m "not slow"

slow-tests: $(STAMP)
	$(PYTEST) -m slow

all-tests: test slow-tests

checks: $(STAMP)
	$(IN_VENV) ruff check .
	$(IN_VENV) ruff format --check .
	$(IN_VENV) mypy
	$(IN_VENV) snakefmt --check Snakefile rules
	$(IN_VENV) snakemake --lint

format: $(STAMP)
	$(IN_VENV) ruff check --fix .
	$(IN_VENV) ruff format .
	$(IN_VENV) snakefmt Snakefile rules

lock: $(STAMP)
	$(VENV)/bin/python -m pip install uv
	$(VENV)/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-package torch --custom-compile-command "make lock" --quiet --output-file requirements.lock
