"""Connection options for companions of the engine, under the connector's names."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from engine.settings.config import Config

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def connection_options(config: Config, host: str, port: int, tls_port: int) -> dict[str, str]:
    """Return the options for the Unix socket. Without one, use the plain port; without a plain port, use the TLS port.

    `host`, `port`: address that accepts clients without TLS; port 0 means that there is no such address. `tls_port`:
    port with TLS. The certificate is not verified, because it is the engine's own and rarely names a local address.
    """
    path = config.text("unixsocket").decode()
    if path:
        return {"url": f"unix://{quote(str(Path(path).absolute()))}"}
    host = _ANY.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    if port:
        return {"url": f"redis://{shown}:{port}"}
    found = {"url": f"rediss://{shown}:{tls_port}", "tls.verify": "none"}
    certificate = "tls-client-cert-file" if config.text("tls-client-cert-file") else "tls-cert-file"
    if config.text("tls-auth-clients") != b"no" and config.text(certificate):
        prefix = certificate.removesuffix("cert-file")
        found["tls.certFile"] = str(Path(config.text(certificate).decode()).absolute())
        found["tls.keyFile"] = str(Path(config.text(f"{prefix}key-file").decode()).absolute())
        password = config.text(f"{prefix}key-file-pass").decode()
        if password:
            found["tls.keyPassword"] = password
    return found
