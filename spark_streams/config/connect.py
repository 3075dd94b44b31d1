"""The options of a connection: their table, and the address that they and the environment make.

Part of `spark_streams.config.options`, which parses; opens nothing.
"""

from __future__ import annotations

from typing import Any

from spark_streams.config import address
from spark_streams.config.address import Address, Credentials, Embedded, Tls
from spark_streams.config.option import Option, Scope, choice, text, whole
from spark_streams.errors import fail

_BOTH: tuple[Scope, ...] = ("read", "write")

TABLE: tuple[Option, ...] = (
    Option(
        "url",
        _BOTH,
        "",
        "The server: redis://, rediss:// (TLS), unix://, redis+sentinel:// or redis+cluster://. Without it the "
        "environment variable PYSTREAMS_URL; without that the embedded engine.",
        text,
    ),
    Option(
        "embedded.dir",
        _BOTH,
        "",
        "Where the embedded engine keeps its data: an absolute directory, or the name of one under PYSTREAMS_HOME (by "
        "default pystreams in the user's state directory). Without it, in memory alone.",
        text,
    ),
    Option("user", _BOTH, "", "The ACL user. Else the URL's, else the environment variable PYSTREAMS_USER.", text),
    Option(
        "password", _BOTH, "", "Its password. Else the URL's, else the environment variable PYSTREAMS_PASSWORD.", text
    ),
    Option("sentinelUser", _BOTH, "", "The user at the Sentinels, which have users of their own.", text),
    Option("sentinelPassword", _BOTH, "", "The password at the Sentinels.", text),
    Option("tls.caFile", _BOTH, "", "The file with the certificates to trust, in place of the system's.", text),
    Option("tls.certFile", _BOTH, "", "The file with this client's certificate.", text),
    Option("tls.keyFile", _BOTH, "", "The file with its key.", text),
    Option("tls.keyPassword", _BOTH, "", "The key's password.", text),
    Option(
        "tls.verify",
        _BOTH,
        "full",
        "What is checked of the server's certificate: 'full', 'ca' (not that it is for this host) or 'none'.",
        choice("full", "ca", "none"),
    ),
    Option(
        "retryTimeoutMs",
        _BOTH,
        str(address.RETRY_MS),
        "For how long a connection that breaks, or a server that is not ready, is tried again. It should be longer "
        "than a failover takes.",
        whole(0),
    ),
)


def build(said: dict[str, Any]) -> Address | Embedded:
    """The address, or which embedded engine it is that has it."""
    tls = Tls(
        said.get("tls.caFile"),
        said.get("tls.certFile"),
        said.get("tls.keyFile"),
        said.get("tls.keyPassword"),
        said["tls.verify"],
    )
    credentials = Credentials(
        said.get("user"), said.get("password"), said.get("sentinelUser"), said.get("sentinelPassword"), tls
    )
    made = address.given(said.get("url"), credentials=credentials, retry_ms=said["retryTimeoutMs"])
    for name in said:
        if name.startswith("tls.") and name != "tls.verify" and (made is None or not made.encrypted):
            fail("INVALID_OPTION", option=name, value="...", expected="TLS needs an url that begins with rediss")
    directory = said.get("embedded.dir")
    if made is None:
        return Embedded(directory)
    if directory is not None:
        expected = "it is for the embedded engine, so without an url (option or PYSTREAMS_URL)"
        fail("INVALID_OPTION", option="embedded.dir", value=directory, expected=expected)
    return made
