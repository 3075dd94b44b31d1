"""MEMORY: sizes of keys (``engine.core.keyspace.footprint``), and the return of free memory to the system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.keyspace import footprint
from engine.core.protocol.args import Args
from engine.core.protocol.replies import OK, CommandError, Reply
from engine.core.table.declare import container
from engine.core.table.registry import SUB_KEY
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Default number of sampled elements.
_SAMPLES = 5

memory_subcommand = container("memory", "Commands that inspect memory.", group="server", since="4.0.0")


@memory_subcommand(
    "usage key [SAMPLES count]",
    "readonly",
    keys=SUB_KEY,
    access="RO",
    complexity="O(samples); with SAMPLES 0, O(fields), or for streams O(segments + blocks of pending entries)",
)
def usage(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the size of a key and its value in bytes; large values are sampled."""
    args, samples = Args(argv, 3), _SAMPLES
    while len(args):
        if not args.option(b"SAMPLES"):
            raise CommandError(messages.SYNTAX)
        samples = args.take_int()
        if samples < 0:
            raise CommandError(messages.SYNTAX)
    key = argv[2]
    value = ctx.db.get(key)
    if value is None:
        return None
    return footprint.of_key(key, value, expires=ctx.db.deadline(key) is not None, samples=samples)


@memory_subcommand("purge")
def purge(ctx: Context, argv: list[bytes]) -> Reply:
    """Releases free memory to the operating system."""
    ctx.host.give_back_memory()
    return OK
