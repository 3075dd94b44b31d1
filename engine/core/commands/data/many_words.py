"""Commands that process many words of a key, or many keys, in steps.

Each step processes some of the words like a separate command: it looks the key up, counts its changes and records its
effects.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from engine.core.protocol.replies import Reply

if TYPE_CHECKING:
    from engine.core.environment.context import Context

#: Number of words above which a command runs in steps.
MANY = 5000
#: Number of words per step; even, so that pairs stay together.
AT_ONCE = 2000


def counted(
    ctx: Context,
    argv: list[bytes],
    first: int,
    handler: Callable[[Context, list[bytes]], Reply],
    *,
    at_once: int = 0,
    reply: Reply = None,
) -> Reply:
    """Run ``handler`` with ``at_once`` of the words from ``first`` on in each step; return the sum of its replies.

    If given, return ``reply`` instead of the sum.
    """
    size = at_once or AT_ONCE

    def work() -> Generator[None, None, Reply]:
        count = 0
        for at in range(first, len(argv), size):
            count += handler(ctx, argv[:first] + argv[at : at + size])
            yield
        return count if reply is None else reply

    return ctx.in_steps(argv, work())
