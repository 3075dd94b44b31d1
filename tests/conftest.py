"""The fixture ``server``, and which tests run on which servers.

A test with ``server`` runs on the core, on the engine over TCP and on a real redis-server, in RESP2 and RESP3 each. A
short run pairs them: what the engine and redis-server run in RESP2, the core runs only in RESP3. Combinations excluded
by a test's marks are deselected, and the summary says how many and why. Without a redis-server its tests are skipped
with that reason, or fail with ``REQUIRE_REDIS=1``.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings

from tests import servers
from tests.harness.core import CoreServer
from tests.harness.kinds import ProcessServer, Server
from tests.harness.stored import StoredServer
from tests.packaging.distributions import distributions, installed, sdist, wheel  # noqa: F401 - fixtures
from tests.servers.releases import NEWEST
from tests.suite import tools
from tests.suite.jvm import start_quickly
from tests.suite.long import FULL
from tests.suite.order import arranged
from tests.suite.spark_session import spark  # noqa: F401 - a fixture: here alone, or there would be a second session to end

pytest_plugins = ["pystreams.testing.plugin"]  # installed as an entry point, too

# Tests start hundreds of engines, workers and programs. If an image's environment forbids Python to store compiled
# files, each of them compiles some three hundred modules again: half a second of processor time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Machines are shared and may be slow, so examples have no deadline. Each run draws others, so few are enough for it.
settings.register_profile(
    "shared", deadline=None, max_examples=100 if FULL else 25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared")

_KINDS = [(kind, proto) for kind in ("core", "engine", "redis") for proto in (2, 3)]
#: Modules whose tests also run on a core with its streams on disk. (Results of tests of nodes would differ there.)
_STORED = ("test_stream_delete", "test_stream_range", "test_group_claim", "test_group_read")
_STORED_LONG = (
    "test_stream_add",
    "test_stream_read",
    "test_stream_transactions",
    "test_group_pending",
    "test_group_lag",
)
_LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    start_quickly()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores SIGINT in its background jobs, and programs that tests start and interrupt would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "markers", "since(version, valkey=None): needs a server that behaves as that release or a newer one"
    )
    config.addinivalue_line("markers", "hand_clock: moves the clock by hand, which only the core in process can do")
    config.addinivalue_line("markers", "over_tcp: needs a connection over TCP")
    config.stash[_LEFT_OUT] = Counter()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        metafunc.parametrize(
            "server",
            [
                pytest.param(
                    (kind, proto), id=f"{kind}-resp{proto}", marks=[pytest.mark.redis] if kind == "redis" else []
                )
                for kind, proto in [*_kinds(metafunc.definition), *([("stored", 3)] if _of_streams(metafunc) else [])]
            ],
            indirect=True,
        )


def _kinds(item: pytest.Item) -> list[tuple[str, int]]:
    """Return the servers of a test, with the protocol; in a short run without those that another one covers."""
    covered = set()
    if not FULL:
        covered |= set() if item.get_closest_marker("hand_clock") else {("core", 2)}
        covered |= set() if item.get_closest_marker("over_tcp") else {("engine", 3), ("redis", 3)}
    return [each for each in _KINDS if each not in covered]


def _of_streams(metafunc: pytest.Metafunc) -> bool:
    modules = _STORED + _STORED_LONG if FULL else _STORED
    return metafunc.module.__name__.rpartition(".")[2] in modules


def _why_not(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    choice = callspec.params.get("server") if callspec is not None else None
    if choice is None:
        return ""
    kind = choice[0]
    if kind not in ("core", "stored") and item.get_closest_marker("hand_clock"):
        return f"{kind}: its clock cannot be moved by hand"
    if kind in ("core", "stored") and item.get_closest_marker("over_tcp"):
        return f"{kind}: needs a connection"
    if kind == "redis" and tools.path_of("redis-server"):
        release = servers.redis_release()
        for mark in item.iter_markers("since"):
            if not release.since(*mark.args):
                return f"{release}: needs {mark.args[0]}"
    return ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selected, left_out = [], []
    for item in items:
        why = _why_not(item)
        if why:
            config.stash[_LEFT_OUT][why] += 1
            left_out.append(item)
        else:
            if not FULL and item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes long: make test-long"))
            selected.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = arranged(selected, processes) if processes > 1 else selected


def pytest_collectstart() -> None:
    gc.disable()  # Collecting twelve thousand tests creates a million objects and no garbage.


def pytest_collection_finish() -> None:
    """Freeze the collected tests: scanning them would take a second in each later run of the garbage collector."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark"):
        tools.needed("java")


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left out"] = dict(session.config.stash[_LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    # Every worker collects all tests, so each reports the same.
    node.config.stash[_LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash[_LEFT_OUT]
    if left_out:
        terminalreporter.section("left out by design")
        for why, count in sorted(left_out.items()):
            terminalreporter.write_line(f"{count:5} on {why}")


@pytest.fixture(scope="session")
def redis_process() -> Iterator[servers.Running]:
    """Yield a real redis-server for the whole run."""
    with servers.redis() as running:
        yield running


@pytest.fixture(scope="session")
def engine_process() -> Iterator[servers.Running]:
    """Yield the engine as a process for the whole run."""
    with servers.engine("--enable-debug-command", "yes") as running:
        yield running


@pytest.fixture(params=[pytest.param("redis", marks=pytest.mark.redis), "engine"])
def instance(request: pytest.FixtureRequest) -> servers.Running:
    """Return the process of a real redis-server or of the engine; the test runs with each of them."""
    running: servers.Running = request.getfixturevalue(f"{request.param}_process")
    return running


@pytest.fixture
def client(instance: servers.Running) -> Iterator[redis.Redis]:
    """Yield a client of ``instance``, which has no keys before and after the test."""
    with redis.Redis(host=instance.host, port=instance.port, protocol=2) as made:
        made.flushall()
        try:
            yield made
        finally:
            made.flushall()


@pytest.fixture(scope="session")
def spark_redis() -> Iterator[servers.Running]:
    """Yield a real redis-server for the tests with Spark only.

    Spark's workers keep connections to it, and other tests count the clients of their server.
    """
    with servers.redis() as running:
        yield running


@pytest.fixture(scope="session")
def spark_engine() -> Iterator[servers.Running]:
    """Yield the engine as a process for the tests with Spark only."""
    with servers.engine() as running:
        yield running


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server without keys, of the kind and protocol in the test's parameter."""
    kind, proto = request.param
    under_test: Server
    if kind == "core":
        under_test = CoreServer(proto)
    elif kind == "stored":
        under_test = StoredServer(proto)
    elif kind == "engine":
        under_test = ProcessServer(kind, request.getfixturevalue("engine_process"), proto, NEWEST)
    else:
        under_test = ProcessServer(kind, request.getfixturevalue("redis_process"), proto, servers.redis_release())
    try:
        yield under_test
    finally:
        under_test.finish()
