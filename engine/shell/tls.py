"""TLS contexts of the ssl module, built from the ``tls-`` directives, for clients and for the link to a master.

If a context cannot be built, the error names the directive or the files at fault.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.settings.config import Config
from engine.settings.kinds import ConfigError

_VERSIONS = {
    "tlsv1": ssl.TLSVersion.TLSv1,
    "tlsv1.1": ssl.TLSVersion.TLSv1_1,
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENTS = {b"yes": ssl.CERT_REQUIRED, b"optional": ssl.CERT_OPTIONAL, b"no": ssl.CERT_NONE}
#: Directives that the context for clients depends on.
DIRECTIVES = (
    "tls-cert-file",
    "tls-key-file",
    "tls-key-file-pass",
    "tls-ca-cert-file",
    "tls-ca-cert-dir",
    "tls-auth-clients",
    "tls-protocols",
    "tls-ciphers",
)


def server_context(config: Config) -> ssl.SSLContext:
    """Return the context for clients. Raises a ConfigError that names the faulty directive or files."""
    text = _texts(config)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _protocols(context, text("tls-protocols"))
    if not text("tls-cert-file") or not text("tls-key-file"):
        raise ConfigError("tls-cert-file and tls-key-file are needed for tls-port")
    _load(context, text, "tls-cert-file", "tls-key-file", "tls-key-file-pass")
    _authorities(context, text("tls-ca-cert-file"), text("tls-ca-cert-dir"), config.text("tls-auth-clients"))
    _ciphers(context, text("tls-ciphers"))
    return context


def client_context(config: Config) -> ssl.SSLContext:
    """Return the context for the link to a master. Raises a ConfigError that names the faulty directive or files.

    An authority of tls-ca-cert-file or tls-ca-cert-dir must have issued the master's certificate. The name in the
    certificate is not checked, because replicas know their master by address. If tls-client-cert-file is empty, this
    server presents the certificate that it presents to clients.
    """
    text = _texts(config)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    _protocols(context, text("tls-protocols"))
    if not text("tls-ca-cert-file") and not text("tls-ca-cert-dir"):
        raise ConfigError("tls-ca-cert-file or tls-ca-cert-dir is needed for tls-replication")
    _authorities(context, text("tls-ca-cert-file"), text("tls-ca-cert-dir"), b"yes")
    _ciphers(context, text("tls-ciphers"))
    names = "tls-client-cert-file", "tls-client-key-file", "tls-client-key-file-pass"
    if not text(names[0]):
        names = "tls-cert-file", "tls-key-file", "tls-key-file-pass"
    if text(names[0]) and text(names[1]):
        _load(context, text, *names)
    return context


def common_name(certificate: Mapping[str, Any]) -> bytes:
    """Return the first common name in a certificate's subject, or b"" without one.

    ``certificate``: result of ``getpeercert``.
    """
    for part in certificate.get("subject", ()):
        for field, value in part:
            if field == "commonName":
                return str(value).encode("utf-8", "surrogateescape")
    return b""


def _texts(config: Config) -> Callable[[str], str]:
    return lambda name: config.text(name).decode("utf-8", "surrogateescape")


def _load(context: ssl.SSLContext, text: Callable[[str], str], certificate: str, key: str, password: str) -> None:
    """Load the certificate that these directives name. The password callback is always set, because without it OpenSSL
    would ask for the password of an encrypted key on the terminal.
    """
    files = _require_file(certificate, text(certificate)), _require_file(key, text(key))
    try:
        context.load_cert_chain(*files, lambda: text(password))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot use the certificate {files[0]} with the key {files[1]}: {error}") from None


def _require_file(name: str, path: str) -> str:
    if not Path(path).exists():
        raise ConfigError(f"{name}: {path} does not exist")
    return path


def _protocols(context: ssl.SSLContext, words: str) -> None:
    """Allow the versions from the lowest to the highest named; TLS 1.2 and later if none is named."""
    names = words.lower().split()
    if not names:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return
    if not set(names) <= set(_VERSIONS):
        raise ConfigError(
            "Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', 'TLSv1.2' and 'TLSv1.3'."
        )
    order = list(_VERSIONS)
    indexes = sorted({order.index(name) for name in names})
    if indexes[-1] - indexes[0] != len(indexes) - 1:
        raise ConfigError("tls-protocols: a version between two enabled versions cannot be left out")
    context.minimum_version = _VERSIONS[order[indexes[0]]]
    context.maximum_version = _VERSIONS[order[indexes[-1]]]


def _authorities(context: ssl.SSLContext, file: str, directory: str, clients: bytes) -> None:
    context.verify_mode = _CLIENTS[clients]
    if file or directory:
        cafile = _require_file("tls-ca-cert-file", file) if file else None
        capath = _require_file("tls-ca-cert-dir", directory) if directory else None
        try:
            context.load_verify_locations(cafile, capath)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot use the CA certificates of {file or directory}: {error}") from None
    elif clients != b"no":
        raise ConfigError(
            "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-auth-clients is enabled"
        )


def _ciphers(context: ssl.SSLContext, names: str) -> None:
    try:
        if names:
            context.set_ciphers(names)
    except ssl.SSLError as error:
        raise ConfigError(f"tls-ciphers: {error}") from None
