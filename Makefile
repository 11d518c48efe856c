# Needs Python 3.11+ and a network; everything else is installed into .venv on first use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TESTS ?= tests
JOBS ?= 2
# A file stays on one worker, so that what it starts is started once.
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $(STAMP)

.PHONY: env
env: $(STAMP) ## Create .venv with everything but the benchmark witnesses

.PHONY: demo
demo: env ## Record a small GPT under a few settings, compare, serve (SERVE=0: do not serve)
	@SERVE=$(SERVE) $(BIN)/python -m sample_runs.demo

.PHONY: sweep
SWEEP ?= --stages 0,1,2,3 --precisions fp32,fp16,bf16 --steps 40
sweep: env ## Record the matrix of settings and print its table; SWEEP="..." for another one
	$(BIN)/probe sweep train.py $(SWEEP)

.PHONY: sample-runs
sample-runs: env ## Record sample_runs/ again
	$(BIN)/python -m sample_runs.record

.PHONY: test
test: env ## Run the suite but for the slow rest
	$(PYTEST) -m 'not slow' $(TESTS)

.PHONY: slow
slow: env ## Run the slow rest: 50 kills, all examples, the demo, every command of the README
	$(PYTEST) -m slow $(TESTS)

.PHONY: quick
quick: env ## Run what takes seconds, not minutes
	$(PYTEST) -m 'not slow and not browser' $(TESTS)

.PHONY: lint
lint: env ## Check format, lint rules and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: format
format: env ## Put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: env ## Measure the run directory, comparing, checkpoints; prints tables
	$(BIN)/python -m benchmarks.run_directory
	$(BIN)/python -m benchmarks.compare
	$(BIN)/python -m benchmarks.checkpoint

BENCH := .venv-bench/bin
BENCH_STAMP := .venv-bench/.installed
$(BENCH_STAMP): pyproject.toml benchmarks/constraints.txt
	$(PYTHON) -m venv .venv-bench
	$(BENCH)/python -m pip install --quiet --disable-pip-version-check -c benchmarks/constraints.txt torch
	DS_BUILD_OPS=0 $(BENCH)/python -m pip install --quiet --disable-pip-version-check \
		-c benchmarks/constraints.txt -e '.[engine,bench]'
	@touch $(BENCH_STAMP)

.PHONY: bench-witness
bench-witness: $(BENCH_STAMP) ## Losses and scales beside DeepSpeed's; fails if they differ
	$(BENCH)/python -m benchmarks.witness_deepspeed

.PHONY: bench-speed
bench-speed: $(BENCH_STAMP) ## Step times beside DeepSpeed, DDP, FSDP2; takes long
	$(BENCH)/python -m benchmarks --into benchmarks/results
	$(BENCH)/python -m benchmarks --into benchmarks/results --ranks 4

.PHONY: clean
clean: ## Remove what was installed or generated
	rm -rf $(VENV) .venv-bench .mypy_cache .pytest_cache .ruff_cache .hypothesis
