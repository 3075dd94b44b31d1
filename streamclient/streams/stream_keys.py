"""Streams as keys of a server: names, changes since an earlier state, and trimming."""

from __future__ import annotations

import re
from collections.abc import Mapping

from streamclient.connection import Command, Connection, Link
from streamclient.errors import fail
from streamclient.streams.model import StreamState, checked, group_state, last_id_of
from streamclient.wire_errors import ResponseError
from streamwire.slots import slot_of
from streamwire.stream_id import StreamId

_SCAN_PAGE = 10_000  # COUNT of a SCAN


class StreamKeys:
    """Streams as keys, with the commands of any Redis."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, pattern: str, regex: re.Pattern[str] | None = None) -> list[str]:
        """Return the names of the streams matching a glob, sorted; with `regex`, only the names that match it as well.

        Raises STREAM_NAME_NOT_TEXT if one of them is not UTF-8.
        """
        found = set[bytes]().union(*self._connection.on_each_master(lambda link: self._scanned(link, pattern)))
        if regex is not None:
            found = {name for name in found if regex.fullmatch(name.decode("utf-8", "surrogateescape"))}
        for name in found:
            try:
                name.decode()
            except UnicodeDecodeError:
                shown = pattern if regex is None else regex.pattern
                fail("STREAM_NAME_NOT_TEXT", pattern=shown, stream=repr(name)[2:-1])
        return sorted(name.decode() for name in found)

    def changed(self, streams: Mapping[str, StreamState | None], group: str | None, wait: int) -> set[str] | None:
        """Return the streams to which entries were added, or from which entries were removed, since they had these
        states. With a group, also return the streams in which the group's state has changed.

        Waits up to `wait` milliseconds for an entry, unless the streams are in different slots of a cluster. Returns
        None if the server rejects the commands. A stream that was recreated with as many entries and no larger ID is
        not noticed, so callers must also read the states from time to time.
        """
        known = self._connection.capabilities
        if not known.finds_changes:
            return None
        if not streams:
            return set()
        names = list(streams)
        commands: list[Command] = [("XLEN", stream) for stream in names]
        if group is not None:
            commands += [("XINFO", "GROUPS", stream) for stream in names]
        state_count = len(commands)
        after = {stream: str(last_id_of(state)) for stream, state in streams.items()}
        if self._connection.topology.is_cluster and len({slot_of(stream.encode()) for stream in names}) > 1:
            commands += [("XREAD", "COUNT", 1, "STREAMS", stream, last) for stream, last in after.items()]
        else:
            blocks: Command = ("BLOCK", wait) if wait else ()
            commands.append(("XREAD", "COUNT", 1, *blocks, "STREAMS", *after, *after.values()))
        replies = self._connection.pipeline(commands)
        refusals = [str(reply) for reply in replies if isinstance(reply, ResponseError)]
        missing = [refusal for refusal in refusals if "no such key" in refusal]
        if len(missing) < len(refusals):
            known.finds_changes = not any(refusal.startswith(("NOPERM", "ERR unknown")) for refusal in refusals)
            return None
        found = {stream.decode() for news in replies[state_count:] for stream, _ in news or ()}
        groups = replies[len(names) : state_count] or [None] * len(names)
        for (stream, state), length, reply in zip(streams.items(), replies, groups, strict=False):
            position = None if isinstance(reply, ResponseError) else group_state(reply, group)
            if (length, position) != ((0, None) if state is None else (state.length, state.group if group else None)):
                found.add(stream)
        return found

    def missing(self, entries: Mapping[str, StreamId]) -> set[str]:
        """Return the streams that do not have the entry with the ID given for them."""
        replies = self._connection.pipeline([("XRANGE", stream, str(at), str(at)) for stream, at in entries.items()])
        found = zip(entries, replies, strict=True)
        return {stream for stream, reply in found if not checked(self._connection, stream, reply, "XRANGE")}

    def trim_before(self, befores: Mapping[str, StreamId]) -> None:
        """Remove the entries with smaller IDs than these from the streams."""
        self._connection.commands([("XTRIM", stream, "MINID", "=", str(at)) for stream, at in befores.items()])

    def _scanned(self, link: Link, pattern: str) -> set[bytes]:
        found: set[bytes] = set()
        cursor: bytes | int = 0
        while True:
            scan: Command = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_PAGE, "TYPE", "stream")
            (reply,) = link.pipeline([scan])
            cursor, names = checked(self._connection, pattern, reply, "SCAN")
            found.update(names)
            if int(cursor) == 0:
                return found
