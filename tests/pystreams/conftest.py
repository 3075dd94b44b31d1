"""Fixtures that run the command line in this process, against a real Redis and the engine in turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
import redis
from click.testing import CliRunner, Result

from pystreams.commands.root import cli
from pystreams.connect import Wanted, connect
from streamclient.connection import Connection
from tests import servers
from tests.servers import topologies


def verbs() -> dict[str, click.Command]:
    """Return the verbs by name."""
    context = click.Context(cli)
    return {name: found for name in cli.list_commands(context) if (found := cli.get_command(context, name)) is not None}


#: Run a test that does not depend on the server only on the engine.
on_engine = pytest.mark.parametrize("instance", ["engine"], indirect=True)


class Cli:
    """The command `pystreams` for one server, without any of the user's own configuration."""

    def __init__(self, url: str, home: Path) -> None:
        self.environment: dict[str, str | None] = {
            "PYSTREAMS_URL": url,
            "PYSTREAMS_PROFILE": None,
            "PYSTREAMS_USER": None,
            "PYSTREAMS_PASSWORD": None,
            "XDG_CONFIG_HOME": str(home),
        }

    def result(self, *words: str | bytes, stdin: str | bytes | None = None, **changed: str | None) -> Result:
        """Run the command and return its result, whether it succeeds or not."""
        arguments = [word if isinstance(word, str) else word.decode("utf-8", "surrogateescape") for word in words]
        result = CliRunner().invoke(cli, arguments, input=stdin, env={**self.environment, **changed})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def __call__(self, *words: str | bytes, stdin: str | bytes | None = None) -> str:
        """Run the command, which must succeed, and return its standard output."""
        result = self.result(*words, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *words: str | bytes, stdin: str | bytes | None = None) -> Any:
        """Run the command with `--json`, and return the parsed output."""
        return json.loads(self(*words, "--json", stdin=stdin))

    def failure(self, *words: str | bytes, status: int, stdin: str | None = None) -> str:
        """Run the command, which must exit with this status, and return its standard error."""
        result = self.result(*words, stdin=stdin)
        assert result.exit_code == status, result.output
        return result.stderr


@contextmanager
def user(client: redis.Redis, *rules: str, name: str = "narrow") -> Iterator[str]:
    """The URL of a user with these rules, at the server of the client."""
    client.execute_command("ACL", "SETUSER", name, "reset", "on", ">pass", *rules)
    server = client.connection_pool.connection_kwargs
    try:
        yield f"redis://{name}:pass@{server['host']}:{server['port']}"
    finally:
        client.acl_deluser(name)


@pytest.fixture(scope="module")
def cluster() -> Iterator[topologies.Cluster]:
    """A cluster of three masters."""
    with topologies.cluster() as made:
        yield made


@pytest.fixture
def engine_client(engine_process: servers.Running) -> Iterator[redis.Redis]:
    """A client of the engine, which has no keys before and after the test."""
    with redis.Redis(port=engine_process.port, protocol=2) as made:
        made.flushall()
        try:
            yield made
        finally:
            made.flushall()


@pytest.fixture
def connection(client: redis.Redis, instance: servers.Running) -> Iterator[Connection]:
    """A new connection to the server, without cached facts about streams."""
    with closing(connect(Wanted(instance.url), "")) as made:
        yield made


@pytest.fixture
def cli_of(client: redis.Redis, instance: servers.Running, tmp_path: Path) -> Cli:
    """The command line for the server of the test."""
    return Cli(instance.url, tmp_path)
