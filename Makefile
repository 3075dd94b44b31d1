# `make` lists the targets; each one first installs what it needs.
# Required: Python 3.11 or later, make, and a package index. `make PYTHON=/path/to/python3` chooses the Python.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PROGRAMS := .programs
RELEASE := .venv-release
READY := $(VENV)/.pystreams-installed

# The Python of Spark's workers and of its search for data sources. Spark's default is the first python3 on PATH.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(BIN)/python
export SPARK_CONF_DIR := $(CURDIR)/conf

.PHONY: help install java demo test test-long lint check docs bench fuzz test-programs test-fresh test-matrix dist clean

help: ## list the targets (the default)
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || grep '##' Makefile

install: $(READY) java ## create .venv and install everything into it

$(READY): pyproject.toml streamwire/pyspark_files.pth scripts/make-venv scripts/find-python
	@scripts/make-venv $(VENV)
	@echo "Installing pystreams and what it needs into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark,test,demo,bench,docs]'
	@touch $@

java:
	@scripts/need-java

demo: install ## run the main job on the embedded engine and check every figure against pandas
	@$(BIN)/spark-submit jobs/flight_delays.py

test: install ## run all tests, or some: make test PYTEST_ARGS='tests/engine -x'
	$(BIN)/python -m pytest -n 3 --dist worksteal $(PYTEST_ARGS)

test-long: install ## run what `make test` leaves out because it takes long, or the long form of some tests: PYTEST_ARGS=tests/crash
	LONG_TESTS=1 $(BIN)/python -m pytest -o faulthandler_timeout=0 $(or $(PYTEST_ARGS),-m long)

lint: $(READY) ## ruff: rules and format; phrases of texts that users see (scripts/prose.py)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/python -m scripts.prose

check: $(READY) ## mypy, strict; import-linter: which package may import which (docs/design/architecture.md)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(READY) ## build the documentation site into site/; a broken link or anchor fails
	@$(BIN)/python scripts/docs_site.py

bench: install ## compare the engine and the connector with their peers (about six minutes)
	@$(BIN)/python -m benchmarks

fuzz: $(READY) ## compare with redis-server on 200,000 random commands; feed parsers and the RDB reader a million inputs each
	@$(BIN)/python -m tests.differential --commands 200000
	@FUZZ_SEED=$$(date +%s) FUZZ_INPUTS=1000000 $(BIN)/python -m pytest -n 0 -q -o faulthandler_timeout=0 tests/engine/wire/test_fuzz.py
	@$(BIN)/python -m tests.engine.core.formats.fuzz --inputs 1000000 --servers
	@$(BIN)/python -m tests.spark_streams.formats.fuzz --values 100000

test-programs: install ## run FastStream, socket.io, Watermill and Spring on redis-server and on the engine (needs npm, Go, Maven; some minutes)
	@$(BIN)/python scripts/programs.py $(PROGRAMS)
	PROGRAMS=$(abspath $(PROGRAMS)) $(BIN)/python -m pytest -n 0 -v -o faulthandler_timeout=0 tests/programs $(PYTEST_ARGS)

test-fresh: ## run .ci/run on a bare Debian in a temporary folder (needs root and debootstrap)
	@scripts/test-fresh $(PYTEST_ARGS)

test-matrix: ## run the connector's tests on the oldest and the newest pair of Python and pyspark
	@scripts/test-matrix

dist: $(RELEASE)/.ready ## build wheel, sdist and SBOM of the last commit into dist/, twice, and install them on each Python found
	@$(RELEASE)/bin/python scripts/dist.py $(DIST_ARGS)

$(RELEASE)/.ready: pyproject.toml scripts/make-venv scripts/find-python
	@scripts/make-venv $(RELEASE)
	@$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	@touch $@

clean: ## remove what this Makefile created
	rm -rf $(VENV) .venv-matrix $(RELEASE) dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse artifacts site
