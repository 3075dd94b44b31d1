"""`pystreams ui` as a process: startup, shutdown, HTTPS, and connections that are slow."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from pystreams.dashboard.login import Rules
from pystreams.dashboard.run import Server, listen, site
from pystreams.dashboard.sampler import Sampler
from tests import ROOT, servers
from tests.pystreams.conftest import Cli
from tests.pystreams.dashboard.conftest import TOKEN, address_of
from tests.servers.certificates import authority, certificate
from tests.suite.waiting import wait_for


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_errors_at_startup(cli_of: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """An occupied port, a token that is too short, and missing packages are errors at startup."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "[PORT_UNUSABLE]" in cli_of.failure("ui", "--port", port, status=1)
    assert "16 characters" in cli_of.failure("ui", "--token", "short", status=2)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "pystreams.dashboard.run", raising=False)
    monkeypatch.delattr("pystreams.dashboard.run", raising=False)
    assert "pip install 'pystreams-spark[dashboard]'" in cli_of.failure("ui", status=1)


def test_an_unusable_state_directory_is_an_error(tmp_path: Path) -> None:
    """The dashboard does not start if its state directory cannot be created."""
    (tmp_path / "file").touch()
    cli = Cli("redis://127.0.0.1:1", tmp_path)
    error = cli.failure("ui", "--port", "0", "--state", str(tmp_path / "file" / "state"), status=1)
    assert error.startswith("error: [STATE_UNUSABLE]")


def _installed(directory: Path, name: str, root: Path) -> None:
    """Replace the certificate and key that the dashboard serves."""
    made = certificate(root, name, authority(root, f"root-{name}"), "DNS:localhost,IP:127.0.0.1")
    shutil.copy(made.key, directory / "dashboard.key")
    shutil.copy(made.certificate, directory / "dashboard.pem")


def _name(port: int, authority_file: Path) -> str | None:
    """Return the common name of the served certificate, or None if the authority did not sign it."""
    context = ssl.create_default_context(cafile=authority_file)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            found = secure.getpeercert()
            assert found is not None
            return str(dict(pair for (pair,) in found["subject"])["commonName"])  # type: ignore[misc]
    except ssl.SSLCertVerificationError:
        return None


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_the_dashboard_serves_https_until_sigterm(instance: servers.Running, tmp_path: Path) -> None:
    """The printed URL has the token after '#', SIGTERM ends the dashboard with status 0, and the output has no
    password. Behind a proxy, a login without a password is refused. A changed certificate is used by the next
    connection; an unusable file leaves the previous one in use.
    """
    _installed(tmp_path, "first", tmp_path)
    url = instance.url.replace("redis://", "redis://default:hush-hush@")
    command = [sys.executable, "-m", "pystreams", "ui", "--url", url, "--port", "0", "--state", "none"]
    given = ["--tls-certificate", "dashboard.pem", "--tls-key", "dashboard.key", "--trusted-proxy", "127.0.0.1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [*command, *given], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"Dashboard of redis://\S+: (https://127\.0\.0\.1:(\d+)/)#token=\S{20,}\n", line)
            assert found is not None, line
            port = int(found[2])
            trusted = ssl.create_default_context(cafile=tmp_path / "root-first.crt")
            with urllib.request.urlopen(found[1], context=trusted) as answer:
                assert b"<title>pystreams</title>" in answer.read()
            nobody = urllib.request.Request(f"{found[1]}api/login", b"{}", {"content-type": "application/json"})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(nobody, context=trusted)
            assert b"PASSWORD_PROVES_NOTHING" in refused.value.read()
            _installed(tmp_path, "second", tmp_path)
            assert _name(port, tmp_path / "root-second.crt") == "second"
            (tmp_path / "dashboard.pem").write_text("no certificate")
            assert _name(port, tmp_path / "root-second.crt") == "second"
            process.terminate()
            assert process.wait(20) == 0
        finally:
            servers.stop(process)  # type: ignore[arg-type]
    errors = (tmp_path / "log").read_text()
    assert "cannot be loaded, so the previous one stays" in errors
    assert "hush" not in line + errors


def test_unusable_files_are_refused_at_the_start(cli_of: Cli, tmp_path: Path) -> None:
    """A missing certificate, a key that does not match, and a key alone are errors at startup."""
    _installed(tmp_path, "first", tmp_path)
    given = ("--tls-certificate", str(tmp_path / "dashboard.pem"))
    assert "[INVALID_VALUE]" in cli_of.failure("ui", "--tls-certificate", str(tmp_path / "missing"), status=2)
    wrong = authority(tmp_path, "wrong").key
    assert "matching key" in cli_of.failure("ui", *given, "--tls-key", str(wrong), status=2)
    assert "requires --tls-certificate" in cli_of.failure("ui", "--tls-key", str(wrong), status=2)


_SLOW_BODY = (
    b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
@pytest.mark.parametrize("sent", [b"", b"POST /api/login HTTP/1.1\r\n", _SLOW_BODY])
def test_slow_requests_do_not_lock_out_others(
    instance: servers.Running, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """More incomplete requests than the server has connections do not keep others from a page. They are closed, at the
    latest when the server ends, and logged as no error.
    """
    made = listen("127.0.0.1", 0)
    port = made.getsockname()[1]
    sampler = Sampler(address_of(instance.url), 0.05)
    app = site(Rules(address_of(instance.url), TOKEN, False, True), sampler, cookie="c")
    server = Server(app, connections=10)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [made]})
    thread.start()
    with ExitStack() as stack:
        try:
            wait_for(lambda: server.started, "the dashboard")
            slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(30)]
            for each in slow:
                with suppress(OSError):  # it may be closed already
                    each.sendall(sent)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
                assert answer.status == 200
            wait_for(lambda: len(server.server_state.connections) <= 10, "connections to be closed")
        finally:
            server.should_exit = True
            thread.join()
            made.close()
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
