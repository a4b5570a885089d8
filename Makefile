# Everything runs inside .venv; stamp files in it record what is installed, so a second run installs nothing.
PYTHON      ?= python3
PYTEST_ARGS ?=
WORKERS     ?= 2
PEERS_ARGS  ?=

VENV  := .venv
PEERS := .venv-peers
BIN  := $(VENV)/bin
RUN  := $(VENV)/.installed-run
DEV  := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs
PIP  := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test lint docs linkcheck bench bench-peers bench-nonlinear bench-engineering clean distclean

help: ## list the targets
	@echo "make <target> [PYTHON=python3.12]"
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)$$/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '  %-18s %s\n' "$$name" "$$text"; done

demo: $(RUN) ## install what is needed, run the demo, write results/demo
	$(BIN)/cnf demo --out results/demo

test: $(DEV) ## run every test (a part: make test PYTEST_ARGS='-m "not slow"')
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

lint: $(DEV) ## check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(DOCS) ## build the site in build/site; warnings and dead links are errors
	$(BIN)/sphinx-build -q -W --keep-going -b html -d build/doctrees docs build/site
	@echo "build/site/index.html"

linkcheck: $(DOCS) ## look at every address elsewhere that the pages link to (needs a network)
	$(BIN)/sphinx-build -q -b linkcheck -d build/doctrees docs build/linkcheck

bench: $(RUN) ## run the benchmarks
	$(BIN)/python -m benchmarks

PEER_NAMES := deepxde tfc siren scipy shapes
bench-peers: $(RUN) $(PEER_NAMES:%=$(PEERS)/%/.installed) ## compare with other packages, each in its own environment
	$(BIN)/python -m benchmarks.peers $(PEERS_ARGS)

bench-nonlinear: $(RUN) $(PEERS)/fastlsq/.installed $(PEERS)/tfc/.installed $(PEERS)/skfem/.installed $(PEERS)/deepxde/.installed ## nonlinear problems beside other packages
	$(BIN)/python -m benchmarks.peers --set nonlinear --threads 1 --timeout 600 --out results/nonlinear-peers $(PEERS_ARGS)

bench-engineering: $(RUN) $(PEERS)/skfem/.installed $(PEERS)/deepxde/.installed $(PEERS)/fastlsq/.installed ## engineering problems beside other packages
	$(BIN)/python -m benchmarks.engineering $(PEERS_ARGS)

clean: ## remove caches, build products and the demo's output; keep .venv
	rm -rf build dist docs/gallery src/*.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis results/demo
	find . -name __pycache__ -type d -not -path './.venv*/*' -prune -exec rm -rf {} +

distclean: clean ## remove .venv and the environments of other packages as well
	rm -rf $(VENV) $(PEERS)

# pip is the last thing venv writes: an interrupted creation is started again.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "cnf needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) -V 2>/dev/null || echo missing); name another: make PYTHON=python3.12" >&2; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing cnf with its command line and plots (a minute or two)"
	@$(PIP) install -qq -c constraints.txt -e '.[cli,viz,geometry]'
	@touch $@

# dev contains all that the demo needs, so it counts for both.
$(DEV): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing cnf with its test and lint tools (a minute or two)"
	@$(PIP) install -qq -c constraints.txt -e '.[dev]'
	@touch $(RUN) $@

$(DOCS): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing cnf with what builds its site (a minute)"
	@$(PIP) install -qq -c constraints.txt -e '.[docs]'
	@touch $(RUN) $@

# What each of the other packages needs, and one rule for all.
$(PEERS)/deepxde/.installed: PACKAGES := deepxde torch
$(PEERS)/tfc/.installed: PACKAGES := tfc
$(PEERS)/siren/.installed: PACKAGES := numpy torch
$(PEERS)/skfem/.installed: PACKAGES := scikit-fem gmsh
$(PEERS)/fastlsq/.installed: PACKAGES := fastlsq scipy
$(PEERS)/scipy/.installed: PACKAGES := numpy scipy
$(PEERS)/shapes/.installed: PACKAGES := numpy scipy open3d pymeshlab

$(PEERS)/%/.installed: constraints.txt
	@echo "installing $(PACKAGES) in $(PEERS)/$* (a minute)"
	@test -x $(PEERS)/$*/bin/pip || $(PYTHON) -m venv $(PEERS)/$*
	@$(PEERS)/$*/bin/python -m pip --disable-pip-version-check install -qq -c constraints.txt $(PACKAGES)
	@touch $@
