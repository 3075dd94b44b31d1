"""CONFIG: reading and changing directives, and writing them to the configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.protocol.replies import OK, CommandError, Map, Reply
from engine.core.table.declare import container
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context

config_subcommand = container(
    "config",
    "Commands that manage the configuration.",
    group="server",
    since="2.0.0",
    flags="admin loading stale",
    help_since="5.0.0",
)


@config_subcommand("get parameter [parameter ...]", complexity="O(directives)")
def get(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the directives that match one of the names or glob patterns, with their values."""
    return Map([word for pair in ctx.config.find(argv[2:]) for word in pair])


@config_subcommand("set parameter value [parameter value ...]", complexity="O(directives)")
def set_(ctx: Context, argv: list[bytes]) -> Reply:
    """Changes directives. If one of the changes is refused, none is made."""
    if len(argv) % 2:
        raise CommandError(messages.SYNTAX)
    error = ctx.config.change(list(zip(argv[2::2], argv[3::2], strict=True)))
    if error is not None:
        raise CommandError(error)
    return OK


@config_subcommand("rewrite", since="2.8.0")
def rewrite(ctx: Context, argv: list[bytes]) -> Reply:
    """Writes the current values to the configuration file."""
    ctx.host.rewrite_configuration()
    return OK


@config_subcommand("resetstat")
def resetstat(ctx: Context, argv: list[bytes]) -> Reply:
    """Resets INFO's counters, except those of refused access."""
    ctx.telemetry.reset()
    ctx.changes.expired_keys = 0
    for db in ctx.databases:
        db.hits = db.misses = 0
    ctx.host.reset_statistics()
    ctx.durability.reset_statistics()
    ctx.replication.reset_statistics()
    return OK
