# Needs Python 3.11+, git and make; everything else lives in .venv, which it makes itself.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
BIN := .venv/bin
# Runs a long target and keeps its row of docs/proof.md.
PROOF := .venv/bin/python -m tests.proof
STAMP := .venv/.stamp
DEMO := .demo
COMPILED := .compiled
# What `make compiled` runs. Not `tidy`, which reads sources, nor `teeth`, which swap methods: what is compiled calls its own.
SUITES ?= tests/unit tests/conformance tests/model tests/differential tests/vectors tests/http tests/security tests/telemetry tests/compat tests/fuzz tests/upgrade
SEEDS ?= 1000
FROM ?= 0
# Worker processes of the simulations: 0 is one for each core.
JOBS ?= 0
# Worker processes of pytest: one more than a small machine has cores, since the live tests mostly wait.
WORKERS ?= 3
export DO_NOT_TRACK = 1
# Some machines set it. The tests start hundreds of processes, each of which would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test quick suite lint types sim sim-cluster sim-bucket bucket year live live-cluster browser chromium fuzz xstate workerd bench bench-full wheel compiled docs clean

help: ## Show what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; install one, or: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than Python 3.11" >&2; exit 1; }
	@echo "making .venv with $(PYTHON)"
	@"$(PYTHON)" -m venv .venv || { echo "error: $(PYTHON) can't make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@

demo: $(STAMP) ## Run the town of examples/demo.py, with half an hour behind it, on a store under .demo, with its dashboard
	@mkdir -p $(DEMO)
	@test -f $(DEMO)/town.db || $(BIN)/python examples/demo.py $(DEMO)/town.db 2>/dev/null
	@echo "Open the dashboard at the address that is said below (http://127.0.0.1:7420 unless that is taken)."
	@echo "Meanwhile, in another terminal (export WAKEFUL_STORE=sqlite:$(DEMO)/town.db):"
	@echo "  $(BIN)/wakeful due                     # what fires next"
	@echo "  $(BIN)/wakeful why Tower hall bell     # why it ran, and why it did not"
	@echo "  $(BIN)/wakeful show Parcel eu/7        # one object with all it has, without waking it"
	@echo "  $(BIN)/wakeful parked                  # what failed for good, until: $(BIN)/wakeful redrive --all"
	@echo
	@$(BIN)/wakeful dev examples/demo.py --store sqlite:$(DEMO)/town.db

test: $(STAMP) ## Everything that must hold before a merge (ten minutes on two cores)
	@$(MAKE) --no-print-directory -j3 lint types suite

quick: $(STAMP) ## What to run again and again while you change something: under two minutes, without PostgreSQL and what takes long
	@$(MAKE) --no-print-directory -j3 lint types quick-suite

quick-suite: $(STAMP)
	$(BIN)/python -m pytest --quick -n 2 tests/unit tests/tidy tests/conformance

suite: $(STAMP) ## All tests, without lint and types
	$(BIN)/python -m pytest --second-look -n $(WORKERS) --dist loadgroup tests

lint: $(STAMP) ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check types, strictly
	$(BIN)/mypy

sim: $(STAMP) ## Simulate SEEDS=1000 worlds with crashes and outages, from seed FROM=0 on
	$(PROOF) sim --least 1000 -- $(BIN)/python -m tests.sim.simulation --seeds $(SEEDS) --from $(FROM) --jobs $(JOBS)

sim-cluster: $(STAMP) ## Simulate SEEDS=1000 clusters of three to five nodes, from seed FROM=0 on
	$(PROOF) sim-cluster --least 1000 -- $(BIN)/python -m tests.sim.cluster_simulation --seeds $(SEEDS) --from $(FROM) --jobs $(JOBS)

sim-bucket: $(STAMP) ## Simulate SEEDS=1000 buckets that nodes write to at once, from seed FROM=0 on
	$(PROOF) sim-bucket --least 1000 -- $(BIN)/python -m tests.sim.bucket_life --seeds $(SEEDS) --from $(FROM)

bucket: $(STAMP) ## All conformance tests on a bucket (five minutes)
	WAKEFUL_TEST_STORES=bucket $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup tests/conformance -k "not told and not postgres"

year: SEEDS = 10
year: $(STAMP) ## Live SEEDS=10 whole years of schedules with outages, from seed FROM=0 on, against a naive oracle
	$(PROOF) year --least 10 -- $(BIN)/python -m tests.model.schedule_life --seeds $(SEEDS) --from $(FROM)

live: $(STAMP) ## The long live tests: real processes killed a hundred times
	WAKEFUL_LIVE=full $(PROOF) live -- $(BIN)/python -m pytest $(filter-out tests/live/test_cluster%,$(wildcard tests/live/test_*.py))

live-cluster: $(STAMP) ## The long live tests of a cluster: jobs under kills, freezes and restarts of nodes and database (45 minutes)
	WAKEFUL_LIVE=full $(PROOF) live-cluster -- $(BIN)/python -m pytest -s --timeout 3600 $(sort $(wildcard tests/live/test_cluster*.py))

fuzz: CASES = 3000
fuzz: $(STAMP) ## Measure the CPU time of CASES=3000 hostile texts and values (fails above 100 ms), and how long hostile requests hold the loop (above 50)
	$(BIN)/python -m tests.fuzz.cost --cases $(CASES) --from $(FROM)
	$(BIN)/python -m tests.fuzz.held

chromium: ## Install Chromium with apt, if it is missing and may be
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
		{ test "$$(id -u)" = 0 || SUDO="sudo -n"; } && $$SUDO apt-get update -q && $$SUDO apt-get install -y -q chromium || \
		{ echo "error: no Chromium here, and it can't be installed; as root: apt install chromium" >&2; exit 1; }

browser: $(STAMP) chromium ## The dashboard in a real Chromium
	$(BIN)/python -m pytest tests/browser

xstate: CASES = 5000
xstate: RECORD = 1200
xstate: $(STAMP) ## Compare CASES=5000 random charts with the real XState (needs Node), from seed FROM=0 on; record RECORD=1200 of them anew
	$(PROOF) xstate -- $(BIN)/python -m tests.xstate.check --cases $(CASES) --from $(FROM) --record $(RECORD)
	$(BIN)/python -m tests.xstate.exported

workerd: $(STAMP) ## Compare Workers on Wakeful with the real workerd (needs Node; three minutes), and record its answers anew
	$(PROOF) workerd -- $(BIN)/python -m tests.workerd.compare
	$(BIN)/python -m tests.workerd.compare_bindings

bench: $(STAMP) ## Measure, the short form, beside other libraries; fails when something takes 2 % more instructions than before
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	$(BIN)/python -m bench
	$(BIN)/python -m bench.instructions --check

bench-full: $(STAMP) ## Measure all of performance.md
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	$(BIN)/python -m bench --full

wheel: ## Build a compiled wheel for this Python and machine into dist/ (needs pip and a C compiler; two minutes)
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 "$(PYTHON)" -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist .

compiled: $(STAMP) wheel ## The suites on the compiled wheel, installed into an environment of its own (the teeth are of the sources)
	"$(PYTHON)" -m venv --clear $(COMPILED)
	$(COMPILED)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile "wakeful[dev] @ file://$(CURDIR)/$$(ls -t dist/*.whl | head -1)"
	$(COMPILED)/bin/wakeful --version | grep ', compiled ('
	$(if $(filter file,$(origin SUITES)),$(PROOF) compiled -- )$(COMPILED)/bin/python -m pytest -n $(WORKERS) --dist loadgroup $(SUITES)

docs: $(STAMP) ## Build the documentation into site/, which needs no network to be read
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean
	@echo "open site/index.html"

clean: ## Remove what the targets made; the demo's data too
	rm -rf .venv .compiled .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
