"""Channels: subscribing, publishing, PUBSUB. Who listens to what is kept by :mod:`engine.core.clients.pubsub`.

A subscription answers once for each channel, so its answers go by the outbox and the command itself has no reply.
Inside EXEC, where each command has one place in the reply, the first answer stands there and the others follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.core.protocol.replies import NO_REPLY, CommandError, Push, Reply, Simple
from engine.core.table.registry import Channels, command, container
from engine.text.globs import matches
from engine.text.messages import clients, general

if TYPE_CHECKING:
    from engine.core.clients.session import Session
    from engine.core.environment.context import Context


def _answers(
    ctx: Context, kind: bytes, names: Sequence[bytes | None], change: Callable[[Session, bytes], None]
) -> Reply:
    session = ctx.session
    answers = []
    for name in names:
        if name is not None:
            change(session, name)
        answers.append(Push([kind, name, len(session.channels) + len(session.patterns)]))
    first = answers.pop(0) if session.in_exec else NO_REPLY
    ctx.outbox.extend((session, answer) for answer in answers)
    return first


@command(
    "subscribe",
    arity=-2,
    flags="pubsub noscript loading stale",
    group="pubsub",
    since="2.0.0",
    channels=Channels(-1),
    summary="Hear channels.",
    complexity="O(channels)",
    syntax="channel [channel ...]",
)
def subscribe(ctx: Context, argv: list[bytes]) -> Reply:
    return _answers(ctx, b"subscribe", argv[1:], ctx.pubsub.subscribe)


@command(
    "psubscribe",
    arity=-2,
    flags="pubsub noscript loading stale",
    group="pubsub",
    since="2.0.0",
    channels=Channels(-1, patterns=True),
    summary="Hear the channels that match patterns.",
    complexity="O(patterns)",
    syntax="pattern [pattern ...]",
)
def psubscribe(ctx: Context, argv: list[bytes]) -> Reply:
    return _answers(ctx, b"psubscribe", argv[1:], ctx.pubsub.subscribe_pattern)


@command(
    "unsubscribe",
    arity=-1,
    flags="pubsub noscript loading stale",
    group="pubsub",
    since="2.0.0",
    summary="Hear channels (or all of them) no more.",
    complexity="O(channels)",
    syntax="[channel [channel ...]]",
)
def unsubscribe(ctx: Context, argv: list[bytes]) -> Reply:
    names: list[bytes | None] = [*(argv[1:] or ctx.session.channels)] or [None]
    return _answers(ctx, b"unsubscribe", names, ctx.pubsub.unsubscribe)


@command(
    "punsubscribe",
    arity=-1,
    flags="pubsub noscript loading stale",
    group="pubsub",
    since="2.0.0",
    summary="Hear patterns (or all of them) no more.",
    complexity="O(patterns)",
    syntax="[pattern [pattern ...]]",
)
def punsubscribe(ctx: Context, argv: list[bytes]) -> Reply:
    names: list[bytes | None] = [*(argv[1:] or ctx.session.patterns)] or [None]
    return _answers(ctx, b"punsubscribe", names, ctx.pubsub.unsubscribe_pattern)


@command(
    "publish",
    arity=3,
    flags="pubsub loading stale fast",
    group="pubsub",
    since="2.0.0",
    channels=Channels(1),
    summary="Send a message to all who hear a channel; how many deliveries that made.",
    complexity="O(listeners + patterns)",
    syntax="channel message",
)
def publish(ctx: Context, argv: list[bytes]) -> Reply:
    return ctx.pubsub.publish(argv[1], argv[2])


container("pubsub", group="pubsub", since="2.8.0", summary="Facts about channels.")

_FLAGS = "pubsub loading stale"


@command(
    "pubsub|channels",
    arity=-2,
    flags=_FLAGS,
    group="pubsub",
    since="2.8.0",
    summary="The channels that somebody hears.",
    complexity="O(channels)",
    syntax="[pattern]",
)
def pubsub_channels(ctx: Context, argv: list[bytes]) -> Reply:
    if len(argv) > 3:
        raise CommandError(general.subcommand_arguments(b"pubsub", argv[1]))
    return [channel for channel in ctx.pubsub.channels if len(argv) == 2 or matches(argv[2], channel)]


@command(
    "pubsub|numsub",
    arity=-2,
    flags=_FLAGS,
    group="pubsub",
    since="2.8.0",
    summary="How many hear each channel.",
    complexity="O(channels named)",
    syntax="[channel [channel ...]]",
)
def pubsub_numsub(ctx: Context, argv: list[bytes]) -> Reply:
    channels = ctx.pubsub.channels
    return [part for name in argv[2:] for part in (name, len(channels.get(name, ())))]


@command(
    "pubsub|numpat",
    arity=2,
    flags=_FLAGS,
    group="pubsub",
    since="2.8.0",
    summary="How many patterns are heard.",
)
def pubsub_numpat(ctx: Context, argv: list[bytes]) -> Reply:
    del argv
    return len(ctx.pubsub.patterns)


@command(
    "pubsub|shardchannels",
    arity=-2,
    flags=_FLAGS,
    group="pubsub",
    since="7.0.0",
    summary="The shard channels that somebody hears: none, there are no shards.",
    syntax="[pattern]",
)
def pubsub_shardchannels(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx
    if len(argv) > 3:
        raise CommandError(general.subcommand_arguments(b"pubsub", argv[1]))
    return []


@command(
    "pubsub|shardnumsub",
    arity=-2,
    flags=_FLAGS,
    group="pubsub",
    since="7.0.0",
    summary="How many hear each shard channel: nobody, there are no shards.",
    syntax="[shardchannel [shardchannel ...]]",
)
def pubsub_shardnumsub(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx
    return [part for name in argv[2:] for part in (name, 0)]


@command("pubsub|help", arity=2, flags="loading stale", group="pubsub", since="6.2.0", summary="What PUBSUB can do.")
def pubsub_help(ctx: Context, argv: list[bytes]) -> Reply:
    del ctx, argv
    return [Simple(line) for line in clients.PUBSUB_HELP]
