"""Expiry: EXPIRE, TTL, their variants, and PERSIST. The keyspace hides expired keys from commands.

The log receives absolute times in milliseconds, so a replay at any time produces the same keys.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine.core.commands.families import key_command
from engine.core.protocol.args import I64_MAX, Args, parse_int
from engine.core.protocol.replies import CommandError, Reply
from engine.text import messages

if TYPE_CHECKING:
    from engine.core.environment.context import Context

_CONDITIONS = (b"NX", b"XX", b"GT", b"LT")
#: The largest time in seconds, in milliseconds.
_LIMIT = I64_MAX // 1000 * 1000


#: Syntax of EX and its variants, for commands' usage lines.
TIME_SYNTAX = "EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds"
#: Option with a time -> whether the time is in seconds, and whether it is since the epoch.
_OPTIONS = {b"EX": (True, False), b"PX": (False, False), b"EXAT": (True, True), b"PXAT": (False, True)}


class TimeOption:
    """The expiry option of a command: ``EX``, ``PX``, ``EXAT`` or ``PXAT`` with an amount, or a word without an amount.

    This word is ``PERSIST`` for GETEX, and ``KEEPTTL`` for SET.
    """

    __slots__ = ("_amount", "_unit", "keeps")

    def __init__(self) -> None:
        self._unit = b""
        self._amount = b""
        #: Whether KEEPTTL or PERSIST was given.
        self.keeps = False

    def parse(self, args: Args, without_time: bytes) -> bool:
        """Parse the option; return whether it was present and valid. ``without_time`` is KEEPTTL or PERSIST.

        The option may be repeated, but not combined with another one.
        """
        word = args.peek()
        if word == without_time and not self._unit:
            self.keeps = True
            args.take()
            return True
        if word in _OPTIONS and not self.keeps and self._unit in {b"", word} and args.option(word):
            self._unit, self._amount = word, args.take()
            return True
        return False

    def deadline(self, ctx: Context, command_name: bytes) -> int | None:
        """Return the deadline in milliseconds since the epoch, None if no time was given. It must be positive."""
        if not self._unit:
            return None
        seconds, absolute = _OPTIONS[self._unit]
        amount, error = parse_int(self._amount), CommandError(messages.invalid_expire(command_name))
        if amount <= 0 or (seconds and amount > I64_MAX // 1000):
            raise error
        deadline = (amount * 1000 if seconds else amount) + (0 if absolute else ctx.now)
        if deadline > I64_MAX:
            raise error
        return deadline


def is_past(ctx: Context, deadline: int) -> bool:
    """Return whether a key with this deadline is deleted immediately; False during a replay."""
    return deadline <= ctx.now and not ctx.changes.replaying


def expire_key(ctx: Context, key: bytes, deadline: int) -> None:
    """Set the deadline of an existing key, or delete the key if the deadline is past.

    Record the effect and the event.
    """
    if is_past(ctx, deadline):
        ctx.db.delete(key)
        ctx.effect(b"DEL", key)
        ctx.changes.notify("g", b"del", key, ctx.db.index)
        return
    ctx.db.set_deadline(key, deadline)
    if ctx.changes.recording:
        ctx.effect(b"PEXPIREAT", key, b"%d" % deadline)
    ctx.db.changed(key, "g", b"expire")


def persist_key(ctx: Context, key: bytes) -> bool:
    """Remove the deadline of an existing key and return whether it had one. Record the effect and the event."""
    if ctx.db.deadline(key) is None:
        return False
    ctx.db.set_deadline(key, None)
    ctx.db.touch(key)
    ctx.effect(b"PERSIST", key)
    ctx.changes.notify("g", b"persist", key, ctx.db.index)
    return True


def _conditions(argv: list[bytes]) -> set[bytes]:
    chosen = set()
    for word in argv[3:]:
        if word.upper() not in _CONDITIONS:
            raise CommandError(b"ERR Unsupported option %b" % word)
        chosen.add(word.upper())
    if b"NX" in chosen and len(chosen) > 1:
        raise CommandError(b"ERR NX and XX, GT or LT options at the same time are not compatible")
    if {b"GT", b"LT"} <= chosen:
        raise CommandError(b"ERR GT and LT options at the same time are not compatible")
    return chosen


def _is_met(conditions: set[bytes], current: int | None, deadline: int) -> bool:
    return not (
        (b"NX" in conditions and current is not None)
        or (b"XX" in conditions and current is None)
        or (b"GT" in conditions and (current is None or deadline <= current))
        or (b"LT" in conditions and current is not None and deadline >= current)
    )


def _expire(ctx: Context, argv: list[bytes], *, seconds: bool, absolute: bool) -> Reply:
    conditions = _conditions(argv) if len(argv) > 3 else None
    key, when = argv[1], parse_int(argv[2])
    base = 0 if absolute else ctx.now
    if seconds:
        when *= 1000
    if when > I64_MAX - base or (seconds and not -_LIMIT <= when <= _LIMIT):
        raise CommandError(messages.invalid_expire(argv[0].lower()))
    deadline = when + base
    if ctx.db.get(key) is None:
        return 0
    if conditions is not None and not _is_met(conditions, ctx.db.deadline(key), deadline):
        return 0
    expire_key(ctx, key, deadline)
    return 1


def _time(ctx: Context, argv: list[bytes], *, seconds: bool, absolute: bool) -> int:
    key = argv[1]
    if ctx.db.read(key) is None:
        return -2
    deadline = ctx.db.deadline(key)
    if deadline is None:
        return -1
    shown = deadline if absolute else max(deadline - ctx.now, 0)
    return (shown + 500) // 1000 if seconds else shown


#: Commands that set and return a time, its name, whether it is in seconds, and whether it is since the epoch.
_TIMES = (
    ("expire", "ttl", "seconds", True, False),
    ("pexpire", "pttl", "milliseconds", False, False),
    ("expireat", "expiretime", "unix-time-seconds", True, True),
    ("pexpireat", "pexpiretime", "unix-time-milliseconds", False, True),
)
for _setter, _getter, _name, _seconds, _absolute in _TIMES:
    _about = "expiry time of a key" if _absolute else "time to live of a key"
    _about += ", in seconds" if _seconds else ", in milliseconds"
    _about += " since the epoch" if _absolute else ""
    key_command(f"{_setter} key {_name} [NX|XX|GT|LT]", "write fast", summary=f"Sets the {_about}.")(
        partial(_expire, seconds=_seconds, absolute=_absolute)
    )
    _summary = f"Returns the {_about}; -1 if the key does not expire, -2 if it does not exist."
    key_command(f"{_getter} key", "readonly fast", summary=_summary)(
        partial(_time, seconds=_seconds, absolute=_absolute)
    )


@key_command("persist key", "write fast")
def persist(ctx: Context, argv: list[bytes]) -> Reply:
    """Removes a key's expiry."""
    return int(ctx.db.get(argv[1]) is not None and persist_key(ctx, argv[1]))
