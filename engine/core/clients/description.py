"""Facts about a client: its line in CLIENT LIST and ACL LOG, its class, and its memory."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.clients.session import Session


def session_type(session: Session) -> bytes:
    """Return the class of a client, as used by CLIENT LIST TYPE."""
    if session.is_replica or session.is_master:
        return b"replica" if session.is_replica else b"master"
    return b"pubsub" if session.subscriptions else b"normal"


def _flags(session: Session, *, held_back: bool) -> bytes:
    marks = (
        (b"O", session.monitor),
        (b"S", session.is_replica),
        (b"M", session.is_master),
        (b"P", bool(session.subscriptions)),
        (b"x", session.multi is not None),
        (b"b", session.waiter is not None or held_back),
        (b"d", session.dirty_exec),
        (b"c", session.close_after_reply),
        (b"e", session.no_evict),
    )
    return b"".join(mark for mark, on in marks if on) or b"N"


def words_held(session: Session) -> int:
    """Return the total size of the blocked command's words in bytes; 0 if no command is blocked."""
    return 0 if session.waiter is None else sum(map(len, session.waiter.argv))


def memory_of(session: Session) -> int:
    """Return the memory of a client in bytes: commands, replies, MULTI's queue, and a blocked command's words."""
    buffers = session.buffers()
    return buffers.commands + buffers.replies + session.queued()[1] + words_held(session)


def describe(session: Session, now_ms: int, running: Sequence[bytes] = ()) -> bytes:
    """Return a session's line in CLIENT LIST, without line end. ``running``: the words of its running command."""
    words = sum(map(len, running)) + words_held(session)
    buffers = session.buffers()
    flags = _flags(session, held_back=buffers.held_back)
    queued, queued_bytes = session.queued()
    fields: list[tuple[bytes, bytes | int]] = [
        (b"id", session.id),
        (b"addr", session.addr),
        (b"laddr", session.laddr),
        (b"fd", session.fd),
        (b"name", session.name),
        (b"age", max(now_ms - session.created_ms, 0) // 1000),
        (b"idle", max(now_ms - session.last_ms, 0) // 1000),
        (b"flags", flags),
        (b"db", session.db),
        (b"sub", len(session.channels)),
        (b"psub", len(session.patterns)),
        (b"ssub", len(session.shard_channels)),
        (b"multi", queued),
        (b"watch", len(session.watching)),
        (b"qbuf", buffers.commands),
        (b"qbuf-free", 0),
        (b"argv-mem", words),
        (b"multi-mem", queued_bytes),
        (b"rbs", 0),
        (b"rbp", 0),
        (b"obl", 0),
        (b"oll", int(buffers.replies > 0)),
        (b"omem", buffers.replies),
        (b"tot-mem", buffers.commands + buffers.replies + queued_bytes + words),
        (b"events", b"r"),
        (b"cmd", session.last_command),
        (b"user", session.user.name),
        (b"redir", -1),
        (b"resp", session.proto),
        (b"lib-name", session.lib_name),
        (b"lib-ver", session.lib_ver),
        (b"io-thread", 0),
        (b"tot-net-in", buffers.received),
        (b"tot-net-out", buffers.sent),
        (b"tot-cmds", session.calls),
    ]
    return b" ".join(name + b"=" + (value if isinstance(value, bytes) else b"%d" % value) for name, value in fields)
