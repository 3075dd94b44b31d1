"""REPLCONF and SYNC: a whole RDB file over a connection, as ``redis-cli --rdb`` asks for it.

The engine has no replicas: a client that wants the changes behind the file as well is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.core.commands.families import server_command
from engine.core.formats.rdb import writer
from engine.core.keyspace import image
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import OK, CommandError, Pages, Raw, Reply
from engine.text.messages import general, server

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: The mark behind a file whose length is not known when it begins: so many hexadecimal digits.
_MARK_DIGITS = 40
#: Bytes of the file that are made at a time.
_PAGE = 8192
_ONLY_THE_FILE, _KNOWS_THE_MARK = b"rdb-only", b"eof"


@server_command("replconf [option value ...]", "admin noscript loading stale allow_busy", since="3.0.0", arity=-1)
def replconf(ctx: Context, argv: list[bytes]) -> Reply:
    """Configures the replication link, which a client of SYNC does before it."""
    if len(argv) % 2 == 0:
        raise CommandError(general.SYNTAX)
    session = ctx.session
    for at in range(1, len(argv), 2):
        option, value = argv[at].lower(), argv[at + 1]
        if option == b"capa":
            session.sync_options |= {value.lower()}
        elif option == b"rdb-only":
            session.sync_options -= {_ONLY_THE_FILE}
            if parse_int(value):
                session.sync_options |= {_ONLY_THE_FILE}
        elif option not in (b"listening-port", b"ip-address", b"version"):
            raise CommandError(server.unknown_replconf(argv[at]))
    return OK


@server_command("sync", "admin noscript no_async_loading no_multi", since="1.0.0")
def sync(ctx: Context, argv: list[bytes]) -> Reply:
    """Sends all data of this moment as an RDB file."""
    if not ctx.session.sync_options >= {_ONLY_THE_FILE, _KNOWS_THE_MARK}:
        raise CommandError(server.NO_REPLICAS)
    mark = b"".join(b"%x" % ctx.changes.pick(16) for _ in range(_MARK_DIGITS))
    version, checksum = ctx.config.integer("rdb-version"), ctx.config.flag("rdbchecksum")
    taken = image.take(ctx.databases, ctx.config, ctx.now)
    return Pages(Raw, 0, _pages(writer.write(taken, version, checksum=checksum), mark))


def _pages(pieces: Iterator[bytes], mark: bytes) -> Iterator[list[Raw]]:
    waiting = [b"$EOF:%b\r\n" % mark]
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PAGE:
            yield [Raw(b"".join(waiting))]
            waiting, size = [], 0
    yield [Raw(b"".join((*waiting, mark)))]
