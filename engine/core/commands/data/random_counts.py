"""Arguments shared by HRANDFIELD and ZRANDMEMBER: the number of elements to draw, and the form of the reply."""

from __future__ import annotations

from engine.core.protocol.args import I64_MAX, I64_MIN, parse_int
from engine.core.protocol.replies import CommandError
from engine.text.messages import general

#: Maximum number of draws with repetition.
_MOST_DRAWS = 1_000_000


def parse_draws(argv: list[bytes], both: bytes) -> tuple[int, bool]:
    """Return the count in ``argv[2]``, and whether the word ``both`` follows it."""
    count = parse_int(argv[2], general.NOT_AN_INTEGER)
    if count == I64_MIN:
        raise CommandError(general.out_of_range(-I64_MAX, I64_MAX))
    if len(argv) > 4 or (len(argv) == 4 and argv[3].upper() != both):
        raise CommandError(general.SYNTAX)
    if len(argv) == 4 and not -(I64_MAX // 2) <= count <= I64_MAX // 2:
        raise CommandError(general.OUT_OF_RANGE)
    if count < -_MOST_DRAWS:
        # Redis has no such limit, and builds replies regardless of memory and time.
        raise CommandError(general.out_of_range(-_MOST_DRAWS, I64_MAX))
    return count, len(argv) == 4
