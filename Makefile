# Needs Python 3.11+, git and make; everything else lives in .venv, which it makes itself.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
BIN := .venv/bin
STAMP := .venv/.stamp
DEMO := .demo
SEEDS ?= 1000
FROM ?= 0
# Worker processes of pytest; two cores is what a small machine has.
WORKERS ?= 2
export DO_NOT_TRACK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint types sim sim-cluster year live live-cluster xstate workerd bench bench-full clean

help: ## Show what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; install one, or: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than Python 3.11" >&2; exit 1; }
	@echo "making .venv with $(PYTHON)"
	@"$(PYTHON)" -m venv .venv || { echo "error: $(PYTHON) can't make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(STAMP) ## Run the reminders example on a store under .demo, and say what to try
	@mkdir -p $(DEMO)
	@echo "Watch: tea is said every 5 s, the oven overlaps with itself, the radio is paused, flaky recovers on its second"
	@echo "retry, broken is parked after about 2.5 minutes. Meanwhile, in another terminal (export WAKEFUL_STORE=sqlite:$(DEMO)/reminders.db):"
	@echo "  $(BIN)/wakeful why Oven home bake        # why most of it did not run"
	@echo "  $(BIN)/wakeful resume Kitchen home radio # then: $(BIN)/wakeful why Kitchen home radio"
	@echo "  $(BIN)/wakeful call Reminder bob remind 'call home' 'after 10s'"
	@echo "  $(BIN)/wakeful call Errand broken repair # once it is parked; then: $(BIN)/wakeful redrive --all"
	@echo
	@$(BIN)/wakeful dev examples/reminders.py --store sqlite:$(DEMO)/reminders.db

test: lint types $(STAMP) ## Everything that must hold before a merge (under ten minutes)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup tests

lint: $(STAMP) ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check types, strictly
	$(BIN)/mypy

sim: $(STAMP) ## Simulate SEEDS=1000 worlds with crashes and outages, from seed FROM=0 on
	$(BIN)/python -m wakeful.testing.simulation --seeds $(SEEDS) --from $(FROM)

sim-cluster: $(STAMP) ## Simulate SEEDS=1000 clusters of three to five nodes, from seed FROM=0 on
	$(BIN)/python -m wakeful.testing.cluster_simulation --seeds $(SEEDS) --from $(FROM)

year: SEEDS = 10
year: $(STAMP) ## Live SEEDS=10 whole years of schedules with outages, from seed FROM=0 on, against a naive oracle
	$(BIN)/python tests/model/schedule_life.py --seeds $(SEEDS) --from $(FROM)

live: $(STAMP) ## The long live tests: real processes killed a hundred times
	WAKEFUL_LIVE=full $(BIN)/python -m pytest $(filter-out tests/live/test_cluster%,$(wildcard tests/live/test_*.py))

live-cluster: $(STAMP) ## The long live tests of a cluster: jobs under kills, freezes and restarts of nodes and database (45 minutes)
	WAKEFUL_LIVE=full $(BIN)/python -m pytest -s --timeout 3600 $(sort $(wildcard tests/live/test_cluster*.py))

xstate: CASES = 5000
xstate: RECORD = 1200
xstate: $(STAMP) ## Compare CASES=5000 random charts with the real XState (needs Node), from seed FROM=0 on; record RECORD=1200 of them anew
	$(BIN)/python tests/xstate/check.py --cases $(CASES) --from $(FROM) --record $(RECORD)

workerd: $(STAMP) ## Compare Workers on Wakeful with the real workerd (needs Node; three minutes), and record its answers anew
	$(BIN)/python tests/workerd/check.py

bench: $(STAMP) ## Measure, the short form, beside other libraries
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	$(BIN)/python -m bench

bench-full: $(STAMP) ## Measure all of performance.md
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	$(BIN)/python -m bench --full

clean: ## Remove what the targets made; the demo's data too
	rm -rf .venv .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
