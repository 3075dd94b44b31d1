"""Channels: subscribing, publishing, PUBSUB. Who listens to what is kept by :mod:`engine.core.clients.pubsub`.

A subscription answers once for each channel, so its answers go by the outbox and the command itself has no reply.
Inside EXEC, where each command has one place in the reply, the first answer stands there and the others follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.core.commands.families import pubsub_command
from engine.core.protocol.args import at_most
from engine.core.protocol.replies import NO_REPLY, Push, Reply
from engine.core.table.declare import container
from engine.core.table.registry import Channels
from engine.text.globs import matcher

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


@pubsub_command("subscribe channel [channel ...]", channels=Channels(-1), complexity="O(channels)")
def subscribe(ctx: Context, argv: list[bytes]) -> Reply:
    """Subscribes to channels."""
    return _answers(ctx, b"subscribe", argv[1:], ctx.pubsub.subscribe)


@pubsub_command("psubscribe pattern [pattern ...]", channels=Channels(-1, patterns=True), complexity="O(patterns)")
def psubscribe(ctx: Context, argv: list[bytes]) -> Reply:
    """Subscribes to the channels that match patterns."""
    return _answers(ctx, b"psubscribe", argv[1:], ctx.pubsub.subscribe_pattern)


@pubsub_command("unsubscribe [channel [channel ...]]", complexity="O(channels)")
def unsubscribe(ctx: Context, argv: list[bytes]) -> Reply:
    """Unsubscribes from all or some channels."""
    names: list[bytes | None] = [*(argv[1:] or ctx.session.channels)] or [None]
    return _answers(ctx, b"unsubscribe", names, ctx.pubsub.unsubscribe)


@pubsub_command("punsubscribe [pattern [pattern ...]]", complexity="O(patterns)")
def punsubscribe(ctx: Context, argv: list[bytes]) -> Reply:
    """Unsubscribes from all or some patterns."""
    names: list[bytes | None] = [*(argv[1:] or ctx.session.patterns)] or [None]
    return _answers(ctx, b"punsubscribe", names, ctx.pubsub.unsubscribe_pattern)


@pubsub_command(
    "publish channel message", "pubsub loading stale fast", channels=Channels(1), complexity="O(listeners + patterns)"
)
def publish(ctx: Context, argv: list[bytes]) -> Reply:
    """Publishes a message to a channel, and returns how many clients received it."""
    ctx.replication.publish(argv[1], argv[2], within=ctx.session.in_exec)
    return ctx.pubsub.publish(argv[1], argv[2])


pubsub_subcommand = container(
    "pubsub",
    "Commands that inspect channels and their subscribers.",
    group="pubsub",
    since="2.8.0",
    flags="pubsub loading stale",
    help_since="6.2.0",
)


@pubsub_subcommand("channels [pattern]", complexity="O(channels)")
def pubsub_channels(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the channels that have subscribers."""
    at_most(argv, 3)
    channels = ctx.pubsub.channels
    return list(channels if len(argv) == 2 else filter(matcher(argv[2]), channels))


@pubsub_subcommand("numsub [channel [channel ...]]", complexity="O(channels named)")
def pubsub_numsub(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of subscribers of each channel."""
    channels = ctx.pubsub.channels
    return [part for name in argv[2:] for part in (name, len(channels.get(name, ())))]


@pubsub_subcommand("numpat")
def pubsub_numpat(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of patterns with subscribers."""
    return len(ctx.pubsub.patterns)


@pubsub_subcommand("shardchannels [pattern]", since="7.0.0")
def pubsub_shardchannels(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns no channel: the engine has no shards."""
    at_most(argv, 3)
    return []


@pubsub_subcommand("shardnumsub [shardchannel [shardchannel ...]]", since="7.0.0")
def pubsub_shardnumsub(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns 0 for each shard channel: the engine has no shards."""
    return [part for name in argv[2:] for part in (name, 0)]
