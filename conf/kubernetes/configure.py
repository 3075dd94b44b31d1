"""Write the configuration of an engine and its Sentinel before they start: python configure.py DIRECTORY.

The first Sentinel that replies names the master. If none replies, all servers are new or were restarted, and the first
server becomes the master. Environment: HOST (this server), FIRST (the first server), SENTINELS (host:port,...), SERVICE
(name of the master at the Sentinels), PASSWORD_FILE.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

_SECONDS = 2


def _master(sentinels: list[str], service: str, password: str) -> str | None:
    """Return the host that a Sentinel names as the master, or None if no Sentinel replies."""
    for sentinel in sentinels:
        host, _, port = sentinel.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), _SECONDS) as connection:
                connection.settimeout(_SECONDS)
                asked = f"AUTH {password}\r\nSENTINEL GET-MASTER-ADDR-BY-NAME {service}\r\n"
                connection.sendall(asked.encode())
                replies = connection.makefile("rb")
                replies.readline()  # +OK, or an error if the Sentinel has no password
                if replies.readline().startswith(b"*2"):
                    replies.readline()
                    return replies.readline().decode().strip()
        except OSError as cause:
            sys.stdout.write(f"{sentinel} did not reply: {cause}\n")
    return None


def main(directory: Path) -> None:
    """Write `engine.conf`, and `sentinel.conf` unless it exists: the Sentinel rewrites that file."""
    host, first, service = os.environ["HOST"], os.environ["FIRST"], os.environ["SERVICE"]
    password = Path(os.environ["PASSWORD_FILE"]).read_text().strip()
    master = _master(os.environ["SENTINELS"].split(","), service, password) or first
    os.umask(0o077)
    (directory / "sentinel").mkdir(exist_ok=True)
    lines = [
        "bind * -::*",
        f"dir {directory}",
        "appendonly yes",
        f"requirepass {password}",
        f"masterauth {password}",
        f"replica-announce-ip {host}",
        *([] if master == host else [f"replicaof {master} 6379"]),
    ]
    (directory / "engine.conf").write_text("".join(f"{line}\n" for line in lines))
    sentinel = directory / "sentinel" / "sentinel.conf"
    if not sentinel.exists():
        lines = [
            f"dir {sentinel.parent}",
            f"requirepass {password}",
            f"sentinel sentinel-pass {password}",
            "sentinel resolve-hostnames yes",
            "sentinel announce-hostnames yes",
            f"sentinel announce-ip {host}",
            f"sentinel monitor {service} {master} 6379 2",
            f"sentinel auth-pass {service} {password}",
            f"sentinel down-after-milliseconds {service} 5000",
            f"sentinel failover-timeout {service} 30000",
        ]
        sentinel.write_text("".join(f"{line}\n" for line in lines))
    sys.stdout.write(f"{host}: {'master' if master == host else 'replica of ' + master}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
