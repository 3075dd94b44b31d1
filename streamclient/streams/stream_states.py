"""States of streams and of their groups by XINFO, on any Redis.

XINFO STREAM replies with two complete entries. If entries are large and the server runs scripts, a read-only script is
used instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn

from streamclient.capabilities import Capabilities
from streamclient.connection import Command, Connection, Link
from streamclient.refusals import RefusedForNowError, refused
from streamclient.retry import is_transient
from streamclient.streams import scripts
from streamclient.streams.model import StreamState, checked, group_state, stream_state
from streamclient.wire_errors import ResponseError


class States:
    """States of streams, each with the state of one of its groups, with the commands of any Redis."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def _known(self) -> Capabilities:
        return self._connection.capabilities

    def of(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        """Return each stream's state, or None if the key does not exist.

        If a group is given, the state includes the group's state. Raises NOT_A_STREAM for a key of another type.
        """
        # The group is requested after the stream, so entries that arrive in between make its lag too large. In the
        # other order, the lag would be too small.
        known = self._known
        scripted = {stream for stream in streams if known.prefers_script(stream)}
        commands: list[Command] = []
        for stream in streams:
            commands.append(scripts.state_of(stream) if stream in scripted else ("XINFO", "STREAM", stream))
            if group is not None:
                commands.append(("XINFO", "GROUPS", stream))
        replies = iter(self._connection.pipeline(commands))
        found: dict[str, StreamState | None] = {}
        refused: list[str] = []
        for stream in streams:
            reply = next(replies)
            groups = checked(self._connection, stream, next(replies), "XINFO GROUPS") if group is not None else None
            if stream in scripted and isinstance(reply, ResponseError) and "no such key" not in str(reply):
                refused.append(stream)
                continue
            state = checked(self._connection, stream, reply, "XINFO STREAM")
            found[stream] = None if state is None else stream_state(state, group_state(groups, group))
            if state is not None and stream not in scripted:
                known.learn_sizes(stream, state)
        if refused:
            known.runs_scripts = False
            found.update(self.of(refused, group))
        return found

    def scripted(self, streams: Iterable[str]) -> frozenset[str]:
        """Return the streams whose entries are so large that a script should read their state."""
        return frozenset(filter(self._known.prefers_script, streams))

    def requests(self, streams: Sequence[str], group: str, scripted: Collection[str] = frozenset()) -> list[Command]:
        """Return commands that read the state of each stream and its group at the same moment.

        The commands may be sent on any link. `scripted`: a result of the method of the same name.
        """
        del group  # XINFO GROUPS reports all groups
        commands: list[Command] = [("MULTI",)]
        for stream in streams:
            by_script = stream in scripted and self._known.runs_scripts
            commands.append(scripts.state_of(stream) if by_script else ("XINFO", "STREAM", stream))
            commands.append(("XINFO", "GROUPS", stream))
        return [*commands, ("EXEC",)]

    def parsed(self, streams: Sequence[str], group: str, replies: Sequence[Any]) -> dict[str, StreamState | None]:
        """Return the states in the replies to `requests`, as `of` does.

        Raises RefusedForNowError if the commands must be sent again, after a new call of `requests`.
        """
        executed = replies[-1]
        if executed is None:
            raise RefusedForNowError("a key that was watched before was changed")
        if isinstance(executed, ResponseError):
            self._refuse(next(reply for reply in replies if isinstance(reply, ResponseError)))
        found: dict[str, StreamState | None] = {}
        for stream, reply, listed in zip(streams, executed[::2], executed[1::2], strict=True):
            if isinstance(reply, ResponseError) and "script" in str(reply) and "no such key" not in str(reply):
                self._refuse(reply)
            state = checked(self._connection, stream, reply, "XINFO STREAM")
            groups = checked(self._connection, stream, listed, "XINFO GROUPS")
            found[stream] = None if state is None else stream_state(state, group_state(groups, group))
        return found

    def _refuse(self, refusal: ResponseError) -> NoReturn:
        text = str(refusal)
        if is_transient(refusal):
            raise RefusedForNowError(text)
        if self._known.runs_scripts and ("eval" in text or "script" in text):
            self._known.runs_scripts = False
            raise RefusedForNowError(text)
        raise refused(self._connection.address, "XINFO", text)

    def consistent(self, streams: Sequence[str], group: str) -> dict[str, StreamState | None]:
        """Return the same as `of`, but read each stream and its group at the same moment."""
        connection = self._connection
        link: Link | None = None
        refusal = ""
        found: dict[str, StreamState | None] = {}

        def attempt() -> bool | None:
            nonlocal link, refusal
            link = None
            on_links: dict[Link, list[str]] = {}
            for stream in streams:
                if stream not in found:
                    on_links.setdefault(connection.link(stream.encode()), []).append(stream)
            for link, ours in on_links.items():
                reads = [self.requests([stream], group, self.scripted([stream])) for stream in ours]
                replies = iter(link.pipeline([*itertools.chain.from_iterable(reads)]))
                for stream, commands in zip(ours, reads, strict=True):
                    try:
                        found.update(self.parsed([stream], group, [*itertools.islice(replies, len(commands))]))
                    except RefusedForNowError as cause:
                        refusal = str(cause)
                        connection.learn_from(refusal, link)
                        return None
            return True

        if connection.retry(attempt, lambda: connection.drop(link)) is None:
            raise refused(connection.address, "XINFO", refusal)
        return {stream: found[stream] for stream in streams}
