# make          what there is to make
# make demo     grade a small class of made-up students, with a table of the results
# The virtual environment .venv builds itself, and again when requirements.lock changes.

PYTHON ?= python3
VENV := .venv
LOCKED := $(VENV)/.locked
STAMP := $(VENV)/.built
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test redteam lint types lab formgrader release verify matrix seeds benchmark clean
.DELETE_ON_ERROR:

help:
	@echo "make demo        grade the submissions in examples/ and show the results"
	@echo "make lab         open a copy of the exercises, in work/, in JupyterLab"
	@echo "make formgrader  open the gradebook in JupyterLab, to grade by hand"
	@echo "make test        run the project's own tests"
	@echo "make redteam     run the bank of hostile submissions alone; TIER=B in the weaker confinement"
	@echo "make lint        check style and types"
	@echo "make verify      prove that the hidden tests accept right answers and catch the known mistakes"
	@echo "make matrix      the same, and write docs/kill-matrix.md"
	@echo "make seeds       put the hidden tests alone through 200 seeds, which takes long"
	@echo "make benchmark   measure speed and memory, for half an hour on a machine with nothing else to do"
	@echo "make release     write the students' notebooks from the instructors'"
	@echo "make clean       remove the virtual environment and the caches"

demo: $(STAMP)
	@$(VENV)/bin/autograder grade --submissions examples/submissions --into demo --fresh --workers 2
	@$(VENV)/bin/autograder feedback --into demo

test: $(STAMP)
	@$(VENV)/bin/python -m pytest -n 2 --dist loadfile $(ARGS)

# The hostile submissions alone. TIER=B has them confined as on machines without user namespaces.
redteam: $(STAMP)
	$(if $(filter-out A B,$(TIER))$(word 2,$(TIER)),$(error TIER is A or B, and not $(TIER)))
	@AUTOGRADER_TIER=$(TIER) $(VENV)/bin/python -m pytest -q -n 2 --dist loadfile tests/redteam/test_bank*.py $(ARGS)

lint: types
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check

types: $(STAMP)
	@$(VENV)/bin/mypy

# In a copy, so that release/ stays what students get; what is in the copy already is left alone.
lab: $(STAMP)
	@mkdir -p work && cp -Rn release/. work/
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/jupyter lab --notebook-dir work $(if $(filter 0,$(shell id -u)),--allow-root)

# nbgrader's pages for instructors: open Nbgrader, Formgrader in JupyterLab's menu. Student code stays confined there too.
formgrader: $(STAMP)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root)

# Many random draws instead of one: takes the better part of an hour. SEEDS=20 for a look.
SEEDS ?= 200
seeds: $(STAMP)
	@$(VENV)/bin/python -m tests.suite.seeds --seeds $(SEEDS)

benchmark: $(STAMP)
	@$(VENV)/bin/python benchmarks

release: $(STAMP)
	@$(VENV)/bin/autograder release

# The page of documentation is that of one seed, so that it is the same everywhere.
VERIFY = $(VENV)/bin/autograder verify --workers 2 --seed 20261129 --table docs/kill-matrix.md
verify: $(STAMP)
	@$(VERIFY) --check

matrix: $(STAMP)
	@$(VERIFY)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An editable install leaves out data files.
NET := autograder/nbgrader/jupyter/nbgrader_config.py
$(STAMP): $(LOCKED) pyproject.toml $(NET)
	@$(PIP) --no-deps --no-build-isolation -e .
	@mkdir -p $(VENV)/etc/jupyter && cp $(NET) $(VENV)/etc/jupyter/
	@touch $@

$(LOCKED): requirements.lock
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "This needs Python 3.11 or newer, and '$(PYTHON)' is not: name one, as in  make $(or $(MAKECMDGOALS),test) PYTHON=python3.12" >&2; exit 1; }
	@echo "Building $(VENV) (once; it takes some minutes) ..."
	@"$(PYTHON)" -m venv --clear $(VENV) || \
	  { echo "'$(PYTHON)' can't make a virtual environment; on Debian and Ubuntu, install the package python3-venv." >&2; exit 1; }
	@$(PIP) -r requirements.lock
	@touch $@
