# Everything that `make` does is set up by itself: it needs a Linux with Python 3.11 to 3.13, make and git.
# What is installed stays in .venv; what is built for the lab stays in the user's cache (~/.cache/davylamp).

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

PY := .venv/bin/python
# After the machine's own programs, so that its Go and kubectl are used where it has them.
export PATH := $(PATH):$(CURDIR)/.venv/bin
export PYTHON ?=

# Test processes; each starts a control plane of its own (about 700 MB), and many tests wait, so more than cores.
WORKERS ?= 3
# Where the lab runs: local (processes on this machine) or kind (Docker).
LAB ?= local
# What part of the tests, as pytest takes it: make test TESTS='tests/gatestats -k odds'
TESTS ?= tests
KIND := $(if $(filter kind,$(LAB)),--kind)
# Lets an unprivileged user make network namespaces; for root it changes nothing.
WITH_NAMESPACES := $(PY) -m e2e.lab exec --bare --

.PHONY: help
help: ## Say what can be made
	@printf 'make TARGET [PYTHON=/path/to/python3.12]\n\n'
	@sed -n 's/^\([a-z][a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | while IFS="$$(printf '\t')" read -r name text; \
		do printf '  %-18s%s\n' "$$name" "$$text"; done

.PHONY: venv
venv: ## Install the locked environment into .venv
	@.ci/environment

.PHONY: demo
demo: lab-programs models ## Show three rollouts of real models: one promoted, two rolled back (REPORT=file.json)
	@$(WITH_NAMESPACES) $(PY) -m e2e.demo $(if $(REPORT),--report '$(REPORT)')

.PHONY: test
test: lint lab-programs helm models ## Check and test everything (TESTS='tests/gatestats', WORKERS=3)
	@.ci/step 'tests' $(WITH_NAMESPACES) $(PY) -m pytest -n $(WORKERS) --dist loadgroup --cov --cov-report= $(TESTS)
ifeq ($(TESTS),tests)
	@.ci/step 'coverage of the decision and the statistics' $(PY) -m coverage report --fail-under=100 \
		--include='operator/davylamp/core/*,detectors/gatestats/*'
	@.ci/step 'coverage of everything' $(PY) -m coverage report --fail-under=80 --format=total
endif

.PHONY: test-safety
test-safety: venv ## Look for a sequence of events that breaks an invariant, others each time (EXAMPLES=500 for each of 4)
	@EXAMPLES=$(or $(EXAMPLES),500) $(PY) -m pytest -n $(WORKERS) tests/simulation/test_safety.py

.PHONY: test-faults
test-faults: lab-programs models ## Only the part of the tests that kills, cuts off and takes away on the real lab
	@$(WITH_NAMESPACES) $(PY) -m pytest -n $(WORKERS) --dist loadgroup tests/lab

.PHONY: test-crash
test-crash: lab-programs models ## Kill the operator at every point of two rollouts (in `make test`: 20 of them)
	@CRASH_POINTS=all $(WITH_NAMESPACES) $(PY) -m pytest -n $(WORKERS) --dist worksteal -m crash tests

.PHONY: bench-reaction
bench-reaction: lab-programs models ## Measure the time from a fault to the last bad request (RUNS=20)
	@$(WITH_NAMESPACES) $(PY) -m e2e.bench.reaction $(if $(RUNS),--runs $(RUNS))

.PHONY: bench-statistics
bench-statistics: venv ## Measure what the statistics promise, beside other tools (REPORT=file.json, PLOTS=folder, SCALE=1)
	@$(PY) -m e2e.bench.statistics $(if $(REPORT),--report '$(REPORT)') $(if $(PLOTS),--plots '$(PLOTS)') \
		$(if $(SCALE),--scale $(SCALE)) $(if $(ONLY),--only $(ONLY))

.PHONY: bench-shadow
bench-shadow: venv ## Measure how many pairs a second one core compares, and an overload (REPORT=file.json, MINUTES=10)
	@$(PY) -m e2e.bench.shadow $(if $(REPORT),--report '$(REPORT)') $(if $(MINUTES),--overload $(MINUTES))

.PHONY: bench-fuzz
bench-fuzz: venv ## Break inputs of every parser of the comparator (INPUTS=100000 for each, REPORT=file.json)
	@$(PY) -m e2e.bench.fuzz_formats $(if $(INPUTS),--inputs $(INPUTS)) $(if $(REPORT),--report '$(REPORT)')

.PHONY: bench-labels
bench-labels: venv ## Measure the join of labels among a million open requests, and kill it (REPORT=file.json, DATABASE=sqlite)
	@$(PY) -m e2e.bench.labels $(if $(REPORT),--report '$(REPORT)') $(if $(DATABASE),--database '$(DATABASE)')

.PHONY: bench-paired-slices
bench-paired-slices: venv ## Measure how much sooner labelled pairs find a slice's loss than a canary (REPORT=file.json, RUNS=20)
	@$(PY) -m e2e.bench.paired_slices $(if $(REPORT),--report '$(REPORT)') $(if $(RUNS),--runs $(RUNS))

.PHONY: bench-live-path
bench-live-path: lab-programs ## Measure what mirroring costs live requests, whatever the comparator does (REPORT=file.json)
	@$(WITH_NAMESPACES) $(PY) -m e2e.bench.live_path $(if $(REPORT),--report '$(REPORT)')

.PHONY: lint
lint: venv ## Check style, types and the direction of imports
	@.ci/step 'style' .venv/bin/ruff check --quiet .
	@.ci/step 'format' .venv/bin/ruff format --check --quiet .
	@.ci/step 'types' .venv/bin/mypy --no-error-summary
	@.ci/step 'import contracts' .venv/bin/lint-imports

.PHONY: lab-programs
lab-programs: venv
	@$(PY) -m e2e.lab build

.PHONY: models
models: venv
	@$(PY) -c 'from e2e.demo.models.artifacts import ensure_models; ensure_models()'

.PHONY: helm
helm: venv
	@$(PY) -m e2e.lab build helm

.PHONY: lab-up
lab-up: venv ## Start a control plane, a gateway and Prometheus (LAB=kind: in Docker)
	@$(PY) -m e2e.lab up $(KIND)

.PHONY: lab-down
lab-down: venv ## Stop the lab and leave nothing of it
	@$(PY) -m e2e.lab down $(KIND)

.PHONY: lab-exec
lab-exec: export LAB_COMMAND := $(value CMD)
lab-exec: venv ## Run a command inside the lab's network: make lab-exec CMD='kubectl get ns'
	@test -n "$$LAB_COMMAND" || { echo "name a command: make lab-exec CMD='kubectl get ns'" >&2; exit 2; }
	@$(PY) -m e2e.lab exec $(KIND) -- sh -c "$$LAB_COMMAND"

.PHONY: docs
docs: venv ## Write what is generated: CRDs, their references, the picture in the README
	@$(PY) -m davylamp.api.v1alpha1.crdgen crds
	@$(PY) -m davylamp.cli.reference
	@$(PY) -m docs.generate

.PHONY: lock
lock: venv ## Pin the newest versions that pyproject.toml allows (UPGRADE=--upgrade)
	@$(PY) -m uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --all-extras --group dev $(UPGRADE) pyproject.toml -o .ci/locks/dev.txt
	@sed -n '/^uv==/,/[^\\]$$/p' .ci/locks/dev.txt >.ci/locks/bootstrap.txt

.PHONY: clean
clean: ## Remove what was made in the checkout (the lab's programs stay in the user's cache)
	@rm -rf .venv dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
