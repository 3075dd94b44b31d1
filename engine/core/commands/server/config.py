"""CONFIG: asking for directives, changing them, writing them to the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.protocol.replies import OK, CommandError, Map, Reply, Simple
from engine.core.table.registry import command, container
from engine.text.messages import general, settings

if TYPE_CHECKING:
    from engine.core.environment.context import Context

_FLAGS = "admin noscript loading stale"

container("config", group="server", since="2.0.0", summary="The configuration.")


@command(
    "config|get",
    arity=-3,
    flags=_FLAGS,
    group="server",
    since="2.0.0",
    complexity="O(directives)",
    summary="The values of directives.",
    syntax="parameter [parameter ...]",
)
def get(ctx: Context, argv: list[bytes]) -> Reply:
    return Map([word for pair in ctx.config.find(argv[2:]) for word in pair])


@command(
    "config|set",
    arity=-4,
    flags=_FLAGS,
    group="server",
    since="2.0.0",
    complexity="O(directives)",
    summary="Change directives, all or none.",
    syntax="parameter value [parameter value ...]",
)
def set_(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) % 2:
        raise CommandError(general.SYNTAX)
    error = ctx.config.change(list(zip(argv[2::2], argv[3::2], strict=True)))
    if error is not None:
        raise CommandError(error)
    return OK


@command(
    "config|rewrite",
    arity=2,
    flags=_FLAGS,
    group="server",
    since="2.8.0",
    summary="Write the values in force to the configuration file.",
)
def rewrite(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    ctx.host.rewrite_configuration()
    return OK


@command("config|resetstat", arity=2, flags=_FLAGS, group="server", since="2.0.0", summary="Begin INFO's counts anew.")
def resetstat(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    ctx.telemetry.reset()
    ctx.changes.expired_keys = 0
    for db in ctx.databases:
        db.hits = db.misses = 0
    ctx.host.reset_statistics()
    return OK


@command("config|help", arity=2, flags="loading stale", group="server", since="5.0.0", summary="What CONFIG can do.")
def help_(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return [Simple(line) for line in settings.CONFIG_HELP]
