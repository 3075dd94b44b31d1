"""Security review of a server: passwords, encryption, rights of the default user, files that other users can read.

If the server is on this machine, a default user without a password is a `WARNING` instead of a `PROBLEM`, and a
connection without TLS is `OK`.
"""

from __future__ import annotations

import ipaddress
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pystreams.streams.findings import Finding, Verdict
from streamclient.config.address import Address
from streamclient.connection import Connection
from streamclient.errors import ResponseError
from streamclient.reply_maps import pairs

_FILES = 1000  # maximum number of checked files in the data directory
_LISTED = 5  # maximum number of files that a finding names


def check(connection: Connection, facts: Mapping[str, str], settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings. `facts`: lines of INFO; `settings`: lines of CONFIG GET. Both may be empty."""
    local = is_local(connection.address)
    yield from _default_user(connection, local=local)
    yield _encryption(connection.address, local=local)
    if settings.get("protected-mode") == "no" and not local:
        advice = "Set protected-mode yes, unless all users have passwords."
        yield Finding("protected mode", Verdict.WARNING, "off", advice)
    if settings.get("enable-debug-command", "no") == "yes":
        advice = "DEBUG can stop or crash the server. Set enable-debug-command no."
        yield Finding("debug command", Verdict.WARNING, "enabled", advice)
    if local:
        yield from _files(facts, settings)


def is_local(address: Address) -> bool:
    """Return whether all servers of the address are on this machine: they have a Unix socket or a loopback address."""
    return all(endpoint.path or _is_loopback(endpoint.host) for endpoint in address.endpoints)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _default_user(connection: Connection, *, local: bool) -> Iterator[Finding]:
    reply = connection.pipeline([("ACL", "GETUSER", "default")])[0]
    if isinstance(reply, ResponseError):
        advice = "Run the check as a user with +acl|getuser to see whether a password is needed."
        yield Finding("password", Verdict.NOTE, "ACL GETUSER is refused", advice)
        return
    user: dict[bytes, Any] = pairs(reply or [])
    flags = user.get(b"flags", [])
    if b"on" not in flags:
        yield Finding("password", Verdict.OK, "the default user is off")
        return
    if b"nopass" in flags:
        advice = "Anyone who reaches the port is logged in. Set requirepass, or ACL SETUSER default off."
        verdict = Verdict.WARNING if local else Verdict.PROBLEM
        yield Finding("password", verdict, "the default user has no password", advice)
    else:
        yield Finding("password", Verdict.OK, "the default user has a password")
    if b"+@all" in user.get(b"commands", b"").split() and _all_keys(user.get(b"keys", b"")):
        advice = "Give each application a user with the rules that it needs (docs/reference/permissions.md)."
        yield Finding("default user", Verdict.WARNING, "may call every command on every key", advice)
    else:
        yield Finding("default user", Verdict.OK, "has limited rights")


def _all_keys(keys: Any) -> bool:
    """Return whether key patterns include all keys. Before Redis 7, ACL GETUSER returns patterns as a list."""
    return b"*" in keys if isinstance(keys, list) else b"~*" in keys.split()


def _encryption(address: Address, *, local: bool) -> Finding:
    if address.encrypted:
        return Finding("encryption", Verdict.OK, "TLS")
    if local:
        return Finding("encryption", Verdict.OK, "none, but the connection stays on this machine")
    advice = "Passwords and data cross the network in plain text. Use rediss:// and the server's tls-port."
    return Finding("encryption", Verdict.WARNING, "none", advice)


def _files(facts: Mapping[str, str], settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether other users of this machine can read the server's files: data, ACL users or settings."""
    named = [Path(text) for text in (settings.get("aclfile", ""), facts.get("config_file", "").strip()) if text]
    directory = Path(settings["dir"]) if settings.get("dir") else None
    try:
        data = _data_files(directory, settings) if directory is not None and not _is_closed(directory) else []
        readable = [path for path in (*data, *named) if path.exists() and path.stat().st_mode & stat.S_IROTH]
    except OSError as cause:
        yield Finding("files", Verdict.NOTE, f"{cause.filename} cannot be checked", "Check them as the server's user.")
        return
    if readable:
        listed = ", ".join(map(str, readable[:_LISTED])) + (", ..." if len(readable) > _LISTED else "")
        advice = "Other users of the machine can read them. Use chmod 700 (directory), 600 (files) and umask 077."
        yield Finding("files", Verdict.WARNING, f"readable by everyone: {listed}", advice)
    elif directory is not None or named:
        yield Finding("files", Verdict.OK, "not readable by other users")


def _is_closed(directory: Path) -> bool:
    """Return whether the directory is closed to other users: they have no permission to enter it."""
    return not directory.stat().st_mode & stat.S_IXOTH


def _data_files(directory: Path, settings: Mapping[str, str]) -> list[Path]:
    found = [directory / settings["dbfilename"]] if settings.get("dbfilename") else []
    if settings.get("appenddirname"):
        log = directory / settings["appenddirname"]
        if log.is_dir() and not _is_closed(log):
            found += sorted(log.iterdir())[:_FILES]
    return found
