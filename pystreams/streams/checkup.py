"""Check-up of a server: kind, permissions, security, and settings that may harm streams. It changes nothing.

ACL DRYRUN says which of the connector's commands the user may call. If the user may not call ACL DRYRUN, `probe` calls
the commands instead, on a key that does not exist and in a form that has no effect. ACL LOG then has each refusal, so
this needs a request.

The security review covers passwords, encryption and rights of the default user. If the server is on this machine, a
default user without a password is a `WARNING` instead of a `PROBLEM`, and a connection without TLS is `OK`.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pystreams.streams import servers
from pystreams.streams.inventory import is_forbidden_key
from pystreams.streams.paged_calls import ask_server
from streamclient.commands import COMMANDS, KEY, Command, Need
from streamclient.config.address import Address
from streamclient.connection import BROKEN, Connection
from streamclient.errors import PystreamsError, ResponseError
from streamclient.reply_maps import info_lines, pairs
from streamclient.routing import UNREACHABLE


class Verdict(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


STYLES = {
    Verdict.OK.value: "green",
    Verdict.NOTE.value: "",
    Verdict.WARNING.value: "yellow",
    Verdict.PROBLEM.value: "bold red",
}


@dataclass(frozen=True)
class Finding:
    """One finding: its subject, its state, and advice (how the connector copes, or what to change)."""

    subject: str
    verdict: Verdict
    found: str
    advice: str = ""


_CLOCK_MS = 2000  # minimum difference between two clocks for a warning
_WAIT_MS = 50  # timeout of WAIT
# Purposes that most users have. Other purposes depend on options of the connector.
_USES = (Need.ANY, Need.APPEND, Need.WRITE_ONCE, Need.READ, Need.READ_GROUP)


def check(connection: Connection, *, probe: bool = False) -> Iterator[Finding]:
    """Yield all findings, from the server's kind to its replicas.

    `probe`: whether calls that may be refused can be made to find the user's rights.
    """
    facts = info_lines(_try(connection, ("INFO",)))
    reply = _try(connection, ("CONFIG", "GET", "*"))
    texts = [] if isinstance(reply, ResponseError) else [each.decode("utf-8", "replace") for each in reply]
    settings = dict(zip(texts[::2], texts[1::2], strict=True))
    yield _release(facts)
    yield _role(facts)
    yield from _clocks(connection)
    yield from _user(connection, probe=probe)
    yield from _scripts(connection)
    yield from review(connection, settings)
    yield from _settings(settings, facts)
    if facts:
        yield from _replicas(connection, facts)


def _try(connection: Connection, command: Command) -> Any:
    return connection.pipeline([command])[0]


def _version(facts: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"[0-9]+", facts.get("redis_version", "0"))[:3]))


def _release(facts: Mapping[str, str]) -> Finding:
    subject = "server"
    if not facts:
        return Finding(
            subject, Verdict.WARNING, "INFO is refused", "Persistence, memory and replicas cannot be checked."
        )
    name = servers.product(facts)
    if not name.startswith("Redis"):
        return Finding(subject, Verdict.OK, name)
    version = _version(facts)
    if version < (5,):
        return Finding(subject, Verdict.PROBLEM, name, "Streams require Redis 5.")
    if version < (7,):
        advice = "Redis before 7 does not report lag and entries-read. Lag is estimated."
        return Finding(subject, Verdict.WARNING, name, advice)
    return Finding(subject, Verdict.OK, name)


def _role(facts: Mapping[str, str]) -> Finding:
    role, mode = facts.get("role", "unknown"), facts.get("redis_mode", "unknown")
    if role == "slave":
        return Finding(
            "role", Verdict.PROBLEM, "replica", "A replica accepts no writes: give the master's URL, or Sentinels."
        )
    return Finding("role", Verdict.OK, f"{role}, {mode}")


def _clocks(connection: Connection) -> Iterator[Finding]:
    """Yield a finding for each server that does not answer, one for this machine's clock, and one for several servers.

    Each clock is measured against the clock of this machine.
    """
    try:
        nodes = servers.servers(connection)
    except (*UNREACHABLE, PystreamsError):
        nodes = []
    offsets: dict[str, float] = {}
    for node in nodes:
        start = time.time()
        try:
            (reply,) = ask_server(connection, node, [("TIME",)])
        except (*BROKEN, PystreamsError):
            yield Finding("servers", Verdict.WARNING, f"{node} does not answer", "See the log of that server.")
            continue
        if isinstance(reply, ResponseError):
            yield Finding("clock", Verdict.NOTE, "TIME is refused", "Ages use this machine's clock.")
            return
        offsets[str(node)] = (int(reply[0]) + int(reply[1]) / 1e6 - (start + time.time()) / 2) * 1000
    if not offsets:
        return
    off = next(iter(offsets.values()))
    advice = "IDs follow the server's clock: synchronise both clocks by NTP."
    yield _apart("clock", f"{off:+.0f} ms relative to this machine", abs(off), advice)
    late, early = min(offsets, key=offsets.__getitem__), max(offsets, key=offsets.__getitem__)
    apart = offsets[early] - offsets[late]
    if len(offsets) > 1:
        advice = "After a failover IDs and ages are wrong by this difference. Synchronise the clocks by NTP."
        yield _apart("clocks", f"{early} is {apart:,.0f} ms ahead of {late}", apart, advice)


def _apart(subject: str, found: str, apart_ms: float, advice: str) -> Finding:
    if apart_ms < _CLOCK_MS:
        return Finding(subject, Verdict.OK, found)
    return Finding(subject, Verdict.WARNING, found, advice)


def _user(connection: Connection, *, probe: bool) -> Iterator[Finding]:
    shown = connection.address.login.username or "default"
    dry: Command = ("ACL", "DRYRUN", shown)
    if isinstance(_try(connection, (*dry, "PING")), ResponseError):
        if not probe:
            found = f"the rights of {shown} are unknown, because it may not call ACL DRYRUN"
            advice = "With --probe, each command is called instead. The server's ACL LOG then has the refusals."
            yield Finding("user", Verdict.NOTE, found, advice)
            return
        dry = ()
    key = b"pystreams:doctor:" + secrets.token_hex(8).encode()
    refused: dict[Verdict, dict[str, list[str]]] = {Verdict.PROBLEM: {}, Verdict.NOTE: {}}
    keys = False
    for command, sent in COMMANDS.items():
        if sent.probe is None:
            continue
        reply = _try(connection, (*dry, *command.split(), *(key if word is KEY else word for word in sent.probe)))
        if dry and isinstance(reply, bytes) and reply != b"OK":
            reply = ResponseError(f"NOPERM {reply.decode('utf-8', 'replace')}")
        if isinstance(reply, ResponseError) and str(reply).startswith("NOPERM"):
            if is_forbidden_key(reply):
                keys = True
            else:
                is_needed = not sent.without and any(need in _USES for need in sent.needs)
                purpose = sent.needs[0].removesuffix(" (not needed)") if sent.needs else "pystreams"
                weight = Verdict.PROBLEM if is_needed else Verdict.NOTE
                refused[weight].setdefault(purpose, []).append(command)
    if keys:
        advice = "The user's key patterns must match the streams and, for groups and writes, pystreams:*."
        yield Finding("keys", Verdict.NOTE, f"{shown} may not use every key", advice)
    if not any(refused.values()):
        yield Finding("user", Verdict.OK, f"{shown} may call every command that the connector needs")
        return
    for verdict, purposes in refused.items():
        if purposes:
            commands = ", ".join(f"{', '.join(names)} ({purpose})" for purpose, names in purposes.items())
            advice = "docs/reference/permissions.md lists the rules for each use. Grant them by ACL SETUSER."
            yield Finding("user", verdict, f"{shown} may not call {commands}", advice)


def _scripts(connection: Connection) -> Iterator[Finding]:
    """Yield the finding about scripts, which the engine does not need."""
    if connection.capabilities.has("PS.STATE"):
        return
    if connection.capabilities.may_run_scripts():
        yield Finding("scripts", Verdict.OK, "EVAL works", "Staged rows and dead letters are moved on the server.")
        return
    advice = "The connector works without EVAL, but moves staged rows and dead letters with more requests."
    yield Finding("scripts", Verdict.NOTE, "EVAL is refused", advice)


def _settings(settings: Mapping[str, str], facts: Mapping[str, str]) -> Iterator[Finding]:
    if not settings:
        advice = "Many cloud servers refuse CONFIG. Settings are then read from INFO, if it reports them."
        yield Finding("settings", Verdict.NOTE, "CONFIG is refused", advice)
    policy = settings.get("maxmemory-policy") or facts.get("maxmemory_policy")
    if policy is not None:
        yield _eviction(policy)
    yield _memory(facts)
    yield _persistence(settings, facts)


def _eviction(policy: str) -> Finding:
    if policy == "noeviction":
        return Finding("eviction", Verdict.OK, policy)
    advice = (
        "The server may evict streams, groups and the records of exactly-once writes, which the connector therefore "
        "refuses (RECORDS_EVICTED). Send CONFIG SET maxmemory-policy noeviction."
    )
    return Finding("eviction", Verdict.PROBLEM, policy, advice)


def _memory(facts: Mapping[str, str]) -> Finding:
    used, most = int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0))
    if not facts or not most:
        return Finding("memory", Verdict.OK, "no limit is set" if facts else "unknown")
    part = used / most
    if part < 0.9:
        return Finding("memory", Verdict.OK, f"{part:.0%} of maxmemory")
    advice = "Writes are refused if memory is full (OOM): trim streams, or raise maxmemory."
    return Finding("memory", Verdict.WARNING, f"{part:.0%} of maxmemory", advice)


def _persistence(settings: Mapping[str, str], facts: Mapping[str, str]) -> Finding:
    subject = "persistence"
    if facts.get("aof_last_write_status", "ok") != "ok" or facts.get("rdb_last_bgsave_status", "ok") != "ok":
        return Finding(
            subject, Verdict.PROBLEM, "the last write to disk failed", "Check the server's log and its disk."
        )
    if facts.get("aof_enabled") == "1":
        sync = settings.get("appendfsync", "unknown")
        if sync == "always":
            return Finding(subject, Verdict.OK, "append-only file, synced before each reply")
        lost = "the last second" if sync == "everysec" else "recent writes"
        advice = f"A crash may lose {lost}, including acknowledged entries. To prevent this, set appendfsync to always."
        return Finding(subject, Verdict.NOTE, f"append-only file, appendfsync {sync}", advice)
    if not facts and not settings:
        return Finding(subject, Verdict.NOTE, "unknown")
    saves = settings.get("save")
    if saves == "" or (saves is None and "rdb_last_save_time" not in facts):
        advice = "All data is lost when the server stops. Set appendonly yes unless this is intended."
        return Finding(subject, Verdict.WARNING, "none", advice)
    advice = "A crash loses all changes since the last snapshot. Set appendonly yes for streams."
    return Finding(subject, Verdict.WARNING, "only snapshots", advice)


def _replicas(connection: Connection, facts: Mapping[str, str]) -> Iterator[Finding]:
    count = int(facts.get("connected_slaves", 0))
    if not count:
        advice = (
            "If the machine fails, all data since the last backup is lost. Add a replica, and Sentinels for failover."
        )
        yield Finding("replicas", Verdict.WARNING, "none", advice)
        return
    reply = _try(connection, ("WAIT", 1, _WAIT_MS))
    if isinstance(reply, ResponseError) or not reply:
        advice = "Do not set waitReplicas: writes would fail. Replicas of some cloud services never confirm writes."
        yield Finding("replicas", Verdict.WARNING, f"{count}, but none confirms writes (WAIT)", advice)
    else:
        yield Finding("replicas", Verdict.OK, f"{count}, and at least one confirms writes (WAIT)")


def review(connection: Connection, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about security. `settings`: lines of CONFIG GET, which may be empty."""
    local = is_local(connection.address)
    yield from _default_user(connection, local=local)
    yield encryption(connection.address, local=local)
    if settings.get("protected-mode") == "no" and not local:
        advice = "Set protected-mode yes, unless all users have passwords."
        yield Finding("protected mode", Verdict.WARNING, "off", advice)
    if settings.get("enable-debug-command", "no") == "yes":
        advice = "DEBUG can stop or crash the server. Set enable-debug-command no."
        yield Finding("debug command", Verdict.WARNING, "enabled", advice)


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


def encryption(address: Address, *, local: bool) -> Finding:
    if address.encrypted:
        return Finding("encryption", Verdict.OK, "TLS")
    if local:
        return Finding("encryption", Verdict.OK, "none, but the connection stays on this machine")
    advice = "Passwords and data cross the network in plain text. Use rediss:// and the server's tls-port."
    return Finding("encryption", Verdict.WARNING, "none", advice)
