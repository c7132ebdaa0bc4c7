# Everything a contributor types. `make help` prints the lines that carry two hashes.
# Needs only make and Python 3.11 or later; all else is installed into .venv.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
KERNELS := $(VENV)/.kernels
# What `make demo` needs of these: no tools of developers, and the kernels that a replay calls.
COMPILER := $(VENV)/.compiler
RUNTIME := $(VENV)/.runtime
DEMO_KERNELS := $(VENV)/.demo-kernels
# Runs a program and tells how long it will probably take: NAME SECONDS WORDS PROGRAM...
STEP = PYTHONPATH=src $(BIN)/python -m gpufleet.progress.command
PIP = $(BIN)/python -m pip install --quiet --no-compile --require-hashes
ENGINE := $(shell find src/gpufleet/engine -name '*.py')
DEMO := build/demo
# Three where there are two cores: tests with a real server wait for it about a third of their time. Each file is run by
# one worker, and the dearest files come first: tests/file_scheduler.py.
PYTEST_ARGS ?= --numprocesses=3 --dist=loadfile

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-zA-Z%-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Two set-ups at once take turns by a lock on this folder, and the second finds everything done: it looks anew once it
# has the lock.
.PHONY: setup
setup: ## Fill .venv with the locked dependencies and compile the kernels
	@flock --nonblock . true || echo 'setup: another set-up is at work here; waiting until it is done'
	@flock . $(MAKE) --no-print-directory --silent $(KERNELS)

# The byte code is written here and not left to the first import: where PYTHONDONTWRITEBYTECODE is set, as in
# many containers, every start of every command would compile all that it imports again, a second each time.
# ray is large and rarely used, and so are the tests that packages bring.
$(INSTALLED): requirements-dev.txt pyproject.toml | $(BIN)/python
	@$(STEP) 'install everything' 100 'installing the locked dependencies into $(VENV)' \
		$(PIP) --requirement requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --no-compile --no-build-isolation --no-deps --editable .
	@$(STEP) 'byte code' 20 'writing byte code' \
		$(BIN)/python -m compileall -q -j 0 -x '/(ray|tests?)/' $(VENV)/lib src
	@touch $(COMPILER) $(RUNTIME) $@

$(KERNELS): $(INSTALLED) $(ENGINE)
	@$(BIN)/python -m gpufleet.replay.kernels --all
	@touch $(DEMO_KERNELS) $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("gpufleet needs Python 3.11 or later; name one with `make PYTHON=...`" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

# The command `gpufleet` before an editable install, which needs tools of developers, replaces it. Worker processes of a
# replay import the script, so it starts nothing unless it is the main module.
define PLACE
import sysconfig, sys
from pathlib import Path
Path(sysconfig.get_path('purelib'), 'gpufleet-source.pth').write_text('$(CURDIR)/src')
script = Path(sysconfig.get_path('scripts'), 'gpufleet')
script.write_text('#!' + sys.executable + '\nimport sys\nfrom gpufleet.cli.main import main\nif __name__ == "__main__":\n    sys.exit(main())\n')
script.chmod(0o755)
endef
export PLACE

# The compiler of the kernels first, so that they are compiled while the other packages are installed.
$(COMPILER): requirements.txt | $(BIN)/python
	@awk '/^[a-z]/ { wanted = /^(llvmlite|msgspec|numba|numpy)==/ } wanted' requirements.txt >$(VENV)/compiler.txt
	@$(STEP) 'install the compiler' 15 'installing the compiler' $(PIP) --requirement $(VENV)/compiler.txt
	@touch $@

$(RUNTIME): requirements.txt $(COMPILER)
	@$(STEP) 'install the dependencies' 25 'installing the other dependencies' $(PIP) --requirement requirements.txt
	@test -x $(BIN)/gpufleet || $(BIN)/python -c "$$PLACE"
	@touch $@

$(DEMO_KERNELS): $(COMPILER) $(ENGINE)
	@PYTHONPATH=src $(BIN)/python -m gpufleet.replay.kernels
	@touch $@

.PHONY: demo
demo: ## Replay a production trace of 1,213 GPU nodes and write a report
	@flock . $(MAKE) --no-print-directory --silent --jobs=2 $(RUNTIME) $(DEMO_KERNELS)
	@$(BIN)/gpufleet replay --seed 42..44 --out $(DEMO)
	@echo 'demo: the report and the results are in $(DEMO)'

# What is checked and built before the tests runs two at a time, as most of it keeps one core busy. The tests stand
# last, so that their closing line is the last one to be read.
.PHONY: test
test: setup ## Check everything: style, types, layers, documents, tests
	@$(MAKE) --no-print-directory --jobs=2 lint docs kube kube-before chart-programs login-programs scale-programs
	@$(MAKE) --no-print-directory pytest

.PHONY: pytest
pytest: setup ## Run the tests alone (PYTEST_ARGS="tests/engine -k gang" for some of them)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: kube
kube: setup ## Fill the cache with the programs of a local cluster (VERSION=1.36.3 for others)
	@$(BIN)/python -m gpufleet.localkube.fill_cache $(VERSION)

# What tests of the version before need of it: a whole cluster would be built for minutes more.
.PHONY: kube-before
kube-before: setup ## Fill the cache with the control plane of the version of Kubernetes before
	@$(BIN)/python -m gpufleet.localkube.fill_cache 1.36.3 kube-apiserver kube-controller-manager

.PHONY: image
image: setup ## Build the container image into build/image (Debian, root; no registry, no Docker; ARCH=arm64)
	@$(BIN)/python -m image $(if $(ARCH),--arch $(ARCH))

.PHONY: chart-programs
chart-programs: setup ## What the tests of chart and image need: helm, kubeconform, and the image where it can be built
	@$(BIN)/python -m tests.chart.programs
	@$(BIN)/python -m image --if-possible

.PHONY: login-programs
login-programs: setup ## What the tests of the page behind a proxy need: oauth2-proxy, and a provider of OpenID Connect
	@$(BIN)/python -m tests.web.login.programs

.PHONY: scale-programs
scale-programs: setup ## What the tests of bought nodes need: Karpenter with its provider of simulated nodes
	@$(BIN)/python -m tests.karpenter.programs

.PHONY: metrics-reference
metrics-reference: kube ## Ask the reference adapter of the metrics APIs anew, and write its answers down for the tests
	@$(BIN)/python -m tests.metrics.reference_adapter
	@$(BIN)/python -m tests.metrics.record_reference

.PHONY: selectors-reference
selectors-reference: setup ## Ask Kubernetes' own compiler of device selectors anew (Go), and write its answers down for the tests
	@$(BIN)/python -m tests.device_selectors.record_reference

.PHONY: allocations-reference
allocations-reference: setup ## Ask Kubernetes' own allocator of claims anew (Go), and write its answers down for the tests
	@$(BIN)/python -m tests.dra_allocation.record_reference

# Its validator needs Python 3.12, NumPy 1 and DuckDB 1, so it has an environment of its own.
FOCUS_PYTHON ?= python3.12
FOCUS := build/focus-validator
.PHONY: check-focus
check-focus: setup ## Hold rows of FOCUS 1.2 against the public validator (FOCUS_PYTHON=python3.12)
	@test -x $(FOCUS)/bin/focus-validator || { $(FOCUS_PYTHON) -m venv $(FOCUS) \
	  && $(FOCUS)/bin/pip install --quiet "focus-validator==2.2.1" "pyarrow<22"; }
	@$(BIN)/python -m tests.ledger.focus_validator $(FOCUS)

.PHONY: chart-test
chart-test: kube chart-programs ## Check the Helm chart and the image, and install them on a local cluster with a real node
	@$(BIN)/python -m pytest tests/chart tests/image tests/kube/manifests

.PHONY: test-kube
test-kube: kube ## Run the tests of a whole local cluster on another Kubernetes (VERSION=1.36.3)
	@GPUFLEET_TEST_KUBERNETES=$(VERSION) $(BIN)/python -m pytest tests/localkube tests/kube/test_real_server.py

SEEDS ?= $(shell shuf --input-range=1-1000000 --head-count=3)
.PHONY: differential
differential: kube ## Hold gpufleet against kube-scheduler with new seeds (SEEDS="1 2" CASES=1000 VERSION=1.36.3)
	@for seed in $(SEEDS); do \
		GPUFLEET_TEST_KUBERNETES=$(VERSION) GPUFLEET_DIFFERENTIAL_SEED=$$seed \
		GPUFLEET_DIFFERENTIAL_CASES=$(or $(CASES),1000) \
		$(BIN)/python -m pytest -s tests/differential/test_differential.py tests/differential/preemption/test_preemption.py; \
	done

CHAOS = GPUFLEET_CHAOS_FAULTS=$(FAULT) GPUFLEET_CHAOS_STRETCH=$(STRETCH) $(BIN)/python -m pytest -s

.PHONY: chaos
chaos: kube ## Faults and dying leaders on a real API server (FAULT=watch-cut SEED=7 STRETCH=4)
	@GPUFLEET_CHAOS_SEED=$(SEED) $(CHAOS) tests/chaos/test_faults.py $(if $(FAULT),,tests/chaos/test_leader.py)

.PHONY: soak-live
soak-live: kube ## The same ten times as long, seed after seed (SEEDS="11 12" FAULT=two-leaders)
	@for seed in $(SEEDS); do \
		GPUFLEET_CHAOS_SEED=$$seed GPUFLEET_CHAOS_MORE=8 $(CHAOS) tests/chaos || exit 1; \
	done
soak-live: STRETCH := 10

.PHONY: soak-agent
soak-agent: kube ## Ten minutes of 50 pods that churn over 8 shared GPUs of a real node (SEED=7)
	@GPUFLEET_CHURN_S=600 GPUFLEET_CHURN_SEED=$(SEED) $(BIN)/python -m pytest -s \
		tests/agent/test_churn_on_a_real_node.py

SOAK_SECONDS ?= 600

.PHONY: soak-security
soak-security: kube ## Hostile tenants and faults together on a real API server (SOAK_SECONDS=600 SEEDS="1 2")
	@for seed in $(SEEDS); do \
		GPUFLEET_HOSTILE_SEED=$$seed GPUFLEET_HOSTILE_SECONDS=$(SOAK_SECONDS) \
		$(BIN)/python -m pytest -s tests/hostile -k gain_nothing || exit 1; \
	done

.PHONY: kube-pin
kube-pin: setup ## Pin the Go modules of another Kubernetes (VERSION=1.36.3; needs Go)
	@$(BIN)/python -m gpufleet.localkube.programs.pin_modules $(VERSION)

.PHONY: digest-pin
digest-pin: setup ## Pin the digests of official downloads, to be compared with a second source (VERSION=1.36.3)
	@$(BIN)/python -m gpufleet.localkube.programs.pin_digests $(VERSION)

SOAK_SEEDS ?= 200
SOAK_FROM ?= 1

.PHONY: soak
soak: setup ## Run the live scheduler and the node agent through many seeds of faults (SOAK_SEEDS=200 SOAK_FROM=1)
	@$(BIN)/python -m gpufleet.cli.sim --fault all \
		--seed $(SOAK_FROM)..$$(($(SOAK_FROM) + $(SOAK_SEEDS) - 1))
	@$(BIN)/python -m gpufleet.cli.sim_node --seed $(SOAK_FROM)..$$(($(SOAK_FROM) + $(SOAK_SEEDS) - 1))
	@GPUFLEET_EFFORT=24 $(BIN)/python -m pytest $(PYTEST_ARGS) \
		tests/simulation/test_every_death.py tests/simulation/test_every_claim_death.py

.PHONY: soak-agree
soak-agree: setup ## Compare explain with the live scheduler through many seeds of faults (SOAK_SEEDS=200 SOAK_FROM=1)
	@for plan in "" "--plan priorities"; do \
		$(BIN)/python -m gpufleet.cli.sim --agree --fault all $$plan \
			--seed $(SOAK_FROM)..$$(($(SOAK_FROM) + $(SOAK_SEEDS) - 1)) || exit 1; \
	done

EFFORT ?= 50

.PHONY: soak-restart
soak-restart: setup ## Change leaders at random moments, with many times the seeds of the tests (EFFORT=50)
	@GPUFLEET_EFFORT=$(EFFORT) $(BIN)/python -m pytest $(PYTEST_ARGS) \
		tests/scheduler/test_restarts_at_random.py tests/engine/preempt/test_restart.py

.PHONY: soak-engine
soak-engine: setup ## Hold the engine against the plain reference in random stories (SECONDS=600 SEED=0)
	@$(BIN)/python -m tests.engine.reference.soak $(or $(SECONDS),600) $(or $(SEED),0)

.PHONY: lint
lint: setup ## Check style, formatting, types and layers
	@failed=(); \
	for check in 'ruff check' 'ruff format --check' mypy 'lint-imports --no-logo'; do \
		$(BIN)/$$check || failed+=("$$check"); \
	done; \
	if (($${#failed[@]})); then printf 'lint: %s failed\n' "$${failed[@]}"; exit 1; fi

.PHONY: format
format: setup ## Format the code and repair what can be repaired
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

.PHONY: docs
docs: setup ## Build the documentation into build/docs; a broken link fails
	@$(BIN)/zensical build --strict --clean
	@$(BIN)/python -m manual.one_page build/docs

.PHONY: protos
protos: setup ## Generate the messages of kubelet, KEDA and Cluster Autoscaler from their .proto files
	@cd src && ../$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. gpufleet/agent/kubelet/kubelet_api/*.proto gpufleet/metrics/external_scaler/*.proto gpufleet/expander/protocol/*.proto

BENCHMARKS := engine quality lists live profile agent dra claims mig queues advise see operate scale pay data

.PHONY: bench
bench: $(BENCHMARKS:%=bench-%) ## Run every benchmark

# Autoscalers, of pods and of nodes, are measured on a real control plane.
bench-see: kube ## Measure what people and autoscalers see, and how soon (8 minutes)
bench-scale: kube scale-programs ## Measure plans, and what autoscalers buy, beside kube-scheduler (7 minutes; PARTS="bought plan")

.PHONY: bench-compare
bench-compare: setup ## Compare the speed of another checkout with this one (BEFORE=FOLDER, set up as this one)
	@$(BIN)/python -m bench.compare $(BEFORE) .

bench-%: setup ## Run one benchmark: engine, quality, lists, live, profile, agent, dra, claims, mig, queues, advise, see, operate, scale, pay, data
	@$(BIN)/python -m bench.$*

.PHONY: lock
lock: $(INSTALLED) ## Lock the newest allowed dependencies, with hashes
	$(BIN)/uv pip compile $(LOCK_OPTIONS) --output-file requirements.txt pyproject.toml
	$(BIN)/uv pip compile $(LOCK_OPTIONS) --constraint requirements.txt --all-extras --group dev \
		--output-file requirements-dev.txt pyproject.toml

# Resolved for the oldest Python so that all Pythons get the same versions; the hashes cover every
# platform. No index is named: each machine's own is used.
LOCK_OPTIONS := --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 --upgrade \
	--generate-hashes --no-emit-index-url --custom-compile-command 'make lock'

.PHONY: clean
clean: ## Remove what was built, but not .venv
	rm -rf build .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis $(KERNELS) $(DEMO_KERNELS)
	find src tests bench image manual -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## Remove .venv too
	rm -rf $(VENV)
