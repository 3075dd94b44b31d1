"""Compare-and-set changes: they apply only if the records have not changed since they were read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamclient.capabilities import is_refused
from streamclient.connection import Command, Connection, Link
from streamclient.errors import ResponseError, fail
from streamclient.refusals import reason_of, refused

#: Returns the commands of the change, given the replies to the reads; an empty list if nothing must change.
Decide = Callable[[list[Any]], list[Command]]


def change(
    connection: Connection,
    keys: Sequence[bytes],
    reads: Sequence[Command],
    decide: Decide,
    *,
    partial: bool = False,
    stops: bool = False,
) -> list[Any]:
    """Read, decide, and execute the commands; repeat this if one of `keys` has changed meanwhile.

    Return the replies to the executed commands; an empty list if `decide` returned no commands. All keys must be in one
    slot. After a broken connection it is unknown whether the commands were executed, and `decide` is called again.
    Raises WRITE_CONTENDED, the errors of `decide`, and the error of a refused command. With `partial`, the error of a
    refused command is among the replies instead. With `stops`, which requires `Capabilities.stops_at_errors`, it is the
    last reply, and the commands after it were not executed.
    """
    link: Link | None = None
    done: list[Any] = []
    #: The last attempt's temporary refusal, with its command.
    refusal: tuple[str, ResponseError] | None = None

    def attempt() -> bool | None:
        nonlocal link, done, refusal
        link = refusal = None
        link = connection.link(keys[0])
        looking: list[Command] = [("WATCH", *keys), *reads]
        found = link.pipeline(looking)
        if _was_refused(looking, found, link):
            return None
        commands = decide(found[1:])
        if not commands:
            link.pipeline([("UNWATCH",)])
            return True
        changing: list[Command] = [("MULTI",), *commands, ("PS.EXEC" if stops else "EXEC",)]
        replies = link.pipeline(changing)
        if _was_refused(changing, replies, link):
            return None
        done = replies[-1] or []
        if done and not partial:
            connection.check(commands[: len(done)], done)
        return True if replies[-1] is not None else None

    def _was_refused(commands: Sequence[Command], replies: Sequence[Any], link: Link) -> bool:
        nonlocal refusal
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, ResponseError):
                if command[0] == "PS.EXEC" and is_refused(reason_of(reply)):  # another server, still in MULTI
                    connection.capabilities.mark_missing("PS.EXEC")
                    connection.drop(link)
                connection.learn_or_raise(reply, str(command[0]), link)
                refusal = str(command[0]), reply
                return True
        return False

    if not connection.retry(attempt, lambda _: connection.drop(link)):
        if refusal is not None:
            raise refused(connection.address, *refusal)
        fail("WRITE_CONTENDED", address=connection.address)
    return done
