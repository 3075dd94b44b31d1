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

# Packages that are tested without a server, and their tests.
UNITS := streamwire streamclient.codec streamclient.formats engine.core engine.wire spark_streams.columns spark_streams.config spark_streams.formats
UNIT_TESTS := $(addprefix tests/,streamwire streamclient/codec streamclient/formats engine/core engine/wire spark_streams/columns spark_streams/config spark_streams/formats)

.PHONY: help install java demo test coverage test-long test-jobs crash lint check docs bench bench-full bench-kafka fuzz chaos test-cluster test-programs test-fresh test-images locks test-matrix test-peers test-redis-py dist clean

help: ## list the targets (the default)
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null || grep '##' Makefile

install: $(READY) java ## create .venv and install everything into it

$(READY): pyproject.toml pystreams_pyspark.pth scripts/make-venv scripts/find-python
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

coverage: install ## measure which lines of the packages without I/O their own tests run (some minutes)
	$(BIN)/python -m pytest -q -n 2 $(UNITS:%=--cov=%) --cov-report=term:skip-covered $(UNIT_TESTS)

test-long: install ## run what `make test` leaves out because it takes long (about half an hour)
	LONG_TESTS=1 $(BIN)/python -m pytest -o faulthandler_timeout=0 -m long $(PYTEST_ARGS)

test-jobs: install ## run every job on engine and Redis, and kill it: each row must be where it belongs, once (about ten minutes)
	LONG_TESTS=1 $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/jobs

crash: install ## kill the engine 300 times while it writes, and compare its data with a model
	CRASH_KILLS=$${CRASH_KILLS:-300} $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/crash

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

bench-full: install ## the same with the sizes of the published figures, and cost against size as pictures
	@$(BIN)/python -m benchmarks --full --repetitions 7
	@$(BIN)/python -m benchmarks.curves --output docs/images

bench-kafka: install ## compare with Spark's Kafka source and sink (jars by spark-submit --packages; about ten minutes)
	@$(BIN)/python -m benchmarks.kafka

fuzz: $(READY) ## compare with redis-server on 200,000 random commands; feed parsers and the RDB reader a million inputs each
	@$(BIN)/python -m tests.differential --commands 200000
	@$(BIN)/python -m tests.engine.wire.fuzz --inputs 1000000
	@$(BIN)/python -m tests.engine.core.formats.fuzz --inputs 1000000 --servers
	@$(BIN)/python -m tests.spark_streams.formats.fuzz --values 100000

chaos: install ## kill servers, masters under Sentinel, workers, drivers and connections three hundred times around a streaming job (half an hour)
	@$(BIN)/python -m tests.chaos

test-cluster: install ## run jobs on a Spark cluster of real processes, on servers that move and die (some minutes)
	$(BIN)/python -m pytest -n 0 -sv -o faulthandler_timeout=0 tests/cluster/cluster_cases.py tests/cluster/connect_cases.py $(PYTEST_ARGS)

test-programs: install ## run FastStream, socket.io, Watermill and Spring on redis-server and on the engine (needs npm, Go, Maven; some minutes)
	@$(BIN)/python scripts/programs.py $(PROGRAMS)
	PROGRAMS=$(abspath $(PROGRAMS)) $(BIN)/python -m pytest -n 0 -v -o faulthandler_timeout=0 tests/programs $(PYTEST_ARGS)

test-fresh: ## run .ci/run on a bare Debian in a temporary folder (needs root and debootstrap)
	@scripts/test-fresh $(PYTEST_ARGS)

test-matrix: ## run the connector's tests on the oldest and the newest pair of Python and pyspark
	@scripts/test-matrix

test-images: install ## build both images by buildah and run them on a read-only root (needs root, mmdebstrap and buildah; two minutes)
	@scripts/test-images

locks: $(READY) ## write conf/containers/requirements.lock: the versions and hashes of the images' packages (needs PyPI)
	@scripts/locks

test-peers: install ## run the contract tests on newer Redis and Valkey servers, those that scripts/peers has unpacked
	@scripts/test-peers

test-redis-py: install ## run redis-py's own tests on redis-server and on the engine, and classify the differences (some 15 minutes)
	@scripts/redis-py-suite $(PYTEST_ARGS)

dist: $(RELEASE)/.ready ## build wheel, sdist and SBOM of the last commit into dist/, twice, and install them on each Python found
	@$(RELEASE)/bin/python scripts/dist.py $(DIST_ARGS)

$(RELEASE)/.ready: pyproject.toml scripts/make-venv scripts/find-python
	@scripts/make-venv $(RELEASE)
	@$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	@touch $@

clean: ## remove what this Makefile created
	rm -rf $(VENV) .venv-matrix $(RELEASE) dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse artifacts site
