"""Certificates for tests, made with the openssl command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.suite.tools import needed

_DAYS = ("-days", "2")
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


def openssl(*words: str | Path) -> None:
    """Run the openssl command."""
    subprocess.run([needed("openssl"), *map(str, words)], capture_output=True, check=True, timeout=60)


def authority(directory: Path, name: str) -> Certificate:
    """Return a certificate that signs others, as ``name.crt`` and ``name.key`` in the directory."""
    made = Certificate(directory / f"{name}.crt", directory / f"{name}.key")
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl(
        "req", "-x509", *_NEW_KEY, "-keyout", made.key, "-out", made.certificate, "-subj", f"/CN={name}", *_DAYS, *usage
    )
    return made


def certificate(directory: Path, name: str, signer: Certificate, hosts: str = "DNS:localhost") -> Certificate:
    """Return a certificate for ``hosts`` with the subject ``name``, as ``name.crt`` and ``name.key`` in
    the directory.
    """
    made = Certificate(directory / f"{name}.crt", directory / f"{name}.key")
    request, extensions = directory / f"{name}.csr", directory / f"{name}.ext"
    extensions.write_text(f"subjectAltName={hosts}\nauthorityKeyIdentifier=keyid\n")
    openssl("req", *_NEW_KEY, "-keyout", made.key, "-out", request, "-subj", f"/CN={name}")
    signing = ("-CA", signer.certificate, "-CAkey", signer.key, "-CAcreateserial")
    openssl("x509", "-req", "-in", request, *signing, "-out", made.certificate, *_DAYS, "-extfile", extensions)
    return made
