"""Jobs on a server that accepts only TLS with a client certificate, with a password from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from archive import archive

from streamclient import pool
from tests import servers
from tests.jobs.conftest import archived
from tests.jobs.processes import PATIENCE, submitted
from tests.servers.certificates import authority, certificate
from tests.suite.long import long_only

SECRET = "a secret of its own"


@dataclass
class Site:
    """A client of the server, and the command-line arguments that connect a job to it."""

    client: redis.Redis
    words: list[str]


@pytest.fixture(params=[pytest.param("redis", marks=pytest.mark.redis), "engine"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    ca = authority(tmp_path, "ca")
    server, client = (certificate(tmp_path, side, ca) for side in ("server", "client"))
    start: Callable[..., object] = servers.redis if request.param == "redis" else servers.engine
    port = servers.free_port()
    files = {"cert-file": server.certificate, "key-file": server.key, "ca-cert-file": ca.certificate, "port": port}
    password = tmp_path / "password"
    password.write_text(SECRET + "\n")
    options = {"tls.caFile": ca.certificate, "tls.certFile": client.certificate, "tls.keyFile": client.key}
    options |= {"user": "job", "passwordFile": password}
    words = ["--url", f"rediss://localhost:{port}"]
    words += [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
    login = {"ssl_ca_certs": ca.certificate, "ssl_certfile": client.certificate, "ssl_keyfile": client.key}
    with (
        start(*(word for name, value in files.items() for word in (f"--tls-{name}", str(value)))),  # type: ignore[attr-defined]
        redis.Redis(
            host="localhost", port=port, protocol=2, ssl=True, **{name: str(path) for name, path in login.items()}
        ) as made,
    ):
        made.execute_command("ACL", "SETUSER", "job", "on", f">{SECRET}", "~*", "&*", "+@all")
        yield Site(made, words)
        pool.close_all()


@long_only
@pytest.mark.spark
@pytest.mark.slow
def test_an_archive_is_written(site: Site, tmp_path: Path) -> None:
    """`archive` started with spark-submit writes every entry, and its output has no password."""
    for n in range(100):
        site.client.xadd("s", {"n": n})
    with submitted(tmp_path, archive.name or "", "--stream", "s", "--to", str(tmp_path / "to"), *site.words) as running:
        running.wait_for("done: ")
        assert running.process.wait(PATIENCE) == 0
        assert SECRET not in running.text
    assert [int(fields["n"]) for _, fields in archived(tmp_path / "to")] == [*range(100)]
