# The same words mean the same everywhere: make demo, test, lint, check, bench; each does the set-up it needs.
# Needed: Python 3.11+, make, and a package index. `make PYTHON=/path/to/python3` chooses the Python.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.pystreams-installed

# Spark starts its workers, and looks for data sources, with the Python that these name; its own default is the first python3 on PATH.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(BIN)/python
export SPARK_CONF_DIR := $(CURDIR)/conf

.PHONY: help install java demo test crash lint check bench bench-full fuzz chaos test-fresh test-matrix clean

help: ## say what there is (the default)
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || grep '##' Makefile

install: $(READY) java ## make .venv and install everything into it

$(READY): pyproject.toml scripts/make-venv scripts/find-python
	@scripts/make-venv $(VENV)
	@echo "Installing pystreams and what it needs into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,demo,bench]'
	@touch $@

java:
	@scripts/need-java

demo: install ## run the main job on the embedded engine: real data, every figure checked
	@$(BIN)/spark-submit jobs/flight_delays.py

test: install ## run all tests, or those that PYTEST_ARGS names
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

crash: install ## kill the engine 300 times at work, and compare what is left with a model
	CRASH_KILLS=$${CRASH_KILLS:-300} $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/crash

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

check: $(READY) ## types (mypy, strict), and the rooms and arrows of docs/architecture.md (import-linter)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: install ## measure side by side, about six minutes
	@$(BIN)/python -m benchmarks

bench-full: install ## the same at the size of the published figures
	@$(BIN)/python -m benchmarks --full --repetitions 7

fuzz: $(READY) ## 200,000 random commands against redis-server, a million inputs for the parsers
	@$(BIN)/python -m tests.differential --commands 200000
	@$(BIN)/python -m tests.engine.wire.fuzz --inputs 1000000

chaos: install ## a hundred kills around a streaming job, on Redis and on the engine (half an hour and more)
	@$(BIN)/python -m tests.chaos

test-fresh: ## everything on a bare Debian in a temporary folder (needs root and debootstrap)
	@scripts/test-fresh $(PYTEST_ARGS)

test-matrix: ## the connector's tests on the oldest and the newest pair of Python and pyspark
	@scripts/test-matrix

clean: ## remove what this Makefile made
	rm -rf $(VENV) .venv-matrix .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse artifacts
