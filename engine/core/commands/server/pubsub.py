"""Channels: subscribing, publishing, PUBSUB. ``engine.core.clients.pubsub`` stores the subscriptions.

A command that subscribes to several channels sends one confirmation per channel. The confirmations go through the
outbox, and the command itself has no reply. Inside EXEC, whose reply has one element per command, the first
confirmation is that element, and the others follow EXEC's reply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
    ctx: Context,
    kind: bytes,
    names: Sequence[bytes | None],
    change: Callable[[Session, bytes], None],
    *counted: Collection[bytes],
) -> Reply:
    """Apply ``change`` to each name, and send a confirmation with the total size of ``counted`` after the change.

    For the name None, only send the confirmation. Inside EXEC, return the first confirmation instead of sending it.
    """
    session = ctx.session
    answers = []
    for name in names:
        if name is not None:
            change(session, name)
        answers.append(Push([kind, name, sum(map(len, counted))]))
    first = answers.pop(0) if session.in_exec else NO_REPLY
    ctx.outbox.extend((session, answer) for answer in answers)
    return first


def _plain(ctx: Context) -> tuple[set[bytes], set[bytes]]:
    return ctx.session.channels, ctx.session.patterns


#: Flags of commands that add a subscription, which requires memory.
_SUBSCRIBES = "pubsub loading stale denyoom"


@pubsub_command("subscribe channel [channel ...]", _SUBSCRIBES, channels=Channels(-1))
def subscribe(ctx: Context, argv: list[bytes]) -> Reply:
    """Subscribes to channels."""
    return _answers(ctx, b"subscribe", argv[1:], ctx.pubsub.subscribe, *_plain(ctx))


@pubsub_command("psubscribe pattern [pattern ...]", _SUBSCRIBES, channels=Channels(-1, patterns=True))
def psubscribe(ctx: Context, argv: list[bytes]) -> Reply:
    """Subscribes to the channels that match patterns."""
    return _answers(ctx, b"psubscribe", argv[1:], ctx.pubsub.subscribe_pattern, *_plain(ctx))


@pubsub_command("unsubscribe [channel [channel ...]]")
def unsubscribe(ctx: Context, argv: list[bytes]) -> Reply:
    """Unsubscribes from all or some channels."""
    names: list[bytes | None] = [*(argv[1:] or ctx.session.channels)] or [None]
    return _answers(ctx, b"unsubscribe", names, ctx.pubsub.unsubscribe, *_plain(ctx))


@pubsub_command("punsubscribe [pattern [pattern ...]]")
def punsubscribe(ctx: Context, argv: list[bytes]) -> Reply:
    """Unsubscribes from all or some patterns."""
    names: list[bytes | None] = [*(argv[1:] or ctx.session.patterns)] or [None]
    return _answers(ctx, b"punsubscribe", names, ctx.pubsub.unsubscribe_pattern, *_plain(ctx))


@pubsub_command(
    "publish channel message",
    "pubsub loading stale fast may_replicate",
    channels=Channels(1),
)
def publish(ctx: Context, argv: list[bytes]) -> Reply:
    """Publishes a message to a channel, and returns how many clients received it."""
    ctx.replication.publish(argv, within=ctx.session.in_exec)
    return ctx.pubsub.publish(argv[1], argv[2])


# -- queries ----------------------------------------------------------------------------------------------------------


pubsub_subcommand = container(
    "pubsub",
    "Commands that inspect channels and their subscribers.",
    group="pubsub",
    flags="pubsub loading stale",
)


def _channels(argv: list[bytes], channels: Collection[bytes]) -> Reply:
    at_most(argv, 3)
    return list(channels if len(argv) == 2 else filter(matcher(argv[2]), channels))


def _listeners(argv: list[bytes], channels: Mapping[bytes, Collection[Session]]) -> Reply:
    return [part for name in argv[2:] for part in (name, len(channels.get(name, ())))]


@pubsub_subcommand("channels [pattern]")
def pubsub_channels(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the channels that have subscribers."""
    return _channels(argv, ctx.pubsub.channels)


@pubsub_subcommand("numsub [channel [channel ...]]")
def pubsub_numsub(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of subscribers of each given channel."""
    return _listeners(argv, ctx.pubsub.channels)


@pubsub_subcommand("numpat")
def pubsub_numpat(ctx: Context, argv: list[bytes]) -> Reply:
    """Returns the number of patterns with subscribers."""
    return len(ctx.pubsub.patterns)
