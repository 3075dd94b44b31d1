"""maxclients and the limit of open files: descriptors remain for the engine's own files."""

from __future__ import annotations

import resource
import sys

import pytest

from pystreams.testing import servers as kit
from tests import servers
from tests.servers.connection import Connection
from tests.suite import tools
from tests.suite.waiting import wait_for

#: Soft and hard limit of open files of the servers in these tests.
LIMIT = 100
MOST = LIMIT - 32


@pytest.fixture
def few_files():
    """Limit the open files of processes started in this test, and restore the limit afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The servers inherit the soft limit. The hard limit could not be raised again, so the servers set it with ulimit.
    yield [tools.needed("sh"), "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def rewrite_log(client: Connection) -> None:
    """Rewrite the log and check that the rewrite succeeded."""
    assert b"started" in client.run("BGREWRITEAOF")
    wait_for(lambda: b"aof_rewrite_in_progress:0" in client.run("INFO", "persistence"), "the rewrite to end")
    assert b"aof_last_bgrewrite_status:ok" in client.run("INFO", "persistence")


@pytest.mark.parametrize("server_of", [servers.engine, servers.redis])
def test_maxclients_is_lowered_to_what_the_system_allows(few_files, monkeypatch, server_of):
    """With few descriptors, maxclients is lowered with a warning.

    That many clients are served, and the log is rewritten.
    """
    original = servers.tied_to_us
    monkeypatch.setattr(kit, "tied_to_us", lambda command: original([*few_files, *command]))
    with server_of("--maxclients", "1000", "--appendonly", "yes") as server, Connection(server) as client:
        names = client.run("CONFIG", "GET", "maxclients")
        assert names == [b"maxclients", b"%d" % MOST]
        assert str(MOST) in server.output.read_text()
        others = [Connection(server) for _ in range(MOST - 1)]
        try:
            assert [other.run("PING") for other in others] == [b"PONG"] * len(others)
            with Connection(server) as extra:
                assert str(extra.receive()) == "ERR max number of clients reached"
            assert str(client.run("CONFIG", "SET", "maxclients", 1000)).endswith(f"try with {MOST}")
            rewrite_log(client)
        finally:
            for other in others:
                other.close()


def test_too_few_descriptors_stop_the_start(few_files, monkeypatch):
    """With fewer descriptors than the engine reserves, the start fails with the reason."""
    original = servers.tied_to_us
    few = [*few_files[:2], 'ulimit -n 30; exec "$@"', "sh"]
    monkeypatch.setattr(kit, "tied_to_us", lambda command: original([*few, *command]))
    with pytest.raises(RuntimeError, match="maxclients: the limit of open files is 30; at least"), servers.engine():
        pass


def test_windows_is_rejected_in_one_line(tmp_path):
    """On an unsupported system `python -m engine` prints a message, with status 1 and no traceback."""
    import subprocess

    program = "import asyncio, logging, subprocess, runpy, sys; sys.platform = 'win32'; import engine.shell"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("engine: Windows is not supported")
    assert done.stderr.count("\n") == 1
