"""HTTPS of the dashboard: serving a certificate and reloading it without a restart."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import ROOT, servers
from tests.pystreams.conftest import Cli
from tests.servers.certificates import authority, certificate

_ENGINE = pytest.mark.parametrize("instance", ["engine"], indirect=True)


@contextmanager
def _served(url: str, directory: Path, *flags: str) -> Iterator[tuple[int, str]]:
    """Run `pystreams ui` with the certificate in this directory; yield its port and the scheme of its URL."""
    command = [sys.executable, "-m", "pystreams", "ui", "--url", url, "--port", "0", "--state", "none", *flags]
    given = ["--tls-certificate", str(directory / "dashboard.pem"), "--tls-key", str(directory / "dashboard.key")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        (directory / "log").open("w") as log,
        subprocess.Popen(
            [*command, *given], cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split(": ")[1]
            yield int(url.split(":")[2].split("/")[0]), url.split(":")[0]
            process.terminate()
            process.wait(20)
        finally:
            servers.stop(process)  # type: ignore[arg-type]


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


@_ENGINE
def test_a_renewed_certificate_is_loaded(instance: servers.Running, tmp_path: Path) -> None:
    """A changed certificate is used by the next connection. An unusable file leaves the previous certificate in use."""
    _installed(tmp_path, "first", tmp_path)
    with _served(instance.url, tmp_path) as (port, scheme):
        assert scheme == "https"
        assert _name(port, tmp_path / "root-first.crt") == "first"
        _installed(tmp_path, "second", tmp_path)
        assert _name(port, tmp_path / "root-second.crt") == "second"
        (tmp_path / "dashboard.pem").write_text("no certificate")
        assert _name(port, tmp_path / "root-second.crt") == "second"
        assert "cannot be loaded, so the previous one stays" in (tmp_path / "log").read_text()


def test_unusable_files_are_refused_at_the_start(cli_of: Cli, tmp_path: Path) -> None:
    """A missing certificate, a key that does not match, and a key alone are errors at startup."""
    _installed(tmp_path, "first", tmp_path)
    given = ("--tls-certificate", str(tmp_path / "dashboard.pem"))
    assert "[INVALID_VALUE]" in cli_of.failure("ui", "--tls-certificate", str(tmp_path / "missing"), status=2)
    wrong = authority(tmp_path, "wrong").key
    assert "matching key" in cli_of.failure("ui", *given, "--tls-key", str(wrong), status=2)
    assert "requires --tls-certificate" in cli_of.failure("ui", "--tls-key", str(wrong), status=2)
