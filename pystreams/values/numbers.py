"""Numbers for people: thousands with separators, bytes in binary units, rates."""

from __future__ import annotations


def count(value: int | None, *, exact: bool = True) -> str:
    """Return a number as text, with `~` before an estimate, or `-` if it is unknown."""
    return "-" if value is None else f"{'' if exact else '~'}{value:,}"


def things(value: int | None, noun: str, *, exact: bool = True) -> str:
    """Return a number, as `count` writes it, with its noun in singular or plural."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count(value, exact=exact)} {noun if value == 1 else several}"


def size(value: int | None) -> str:
    """Return a number of bytes as text."""
    if value is None:
        return "-"
    if value < 1024:
        return f"{value} B"
    amount = float(value)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 1024 or unit == "TiB":
            return f"{amount:.1f} {unit}"
    raise AssertionError


def rate(value: float | None) -> str:
    """Return a number of entries per second as text."""
    if value is None:
        return "-"
    if value >= 10 or value == 0:
        return f"{value:,.0f}/s"
    return f"{value:.2g}/s" if value >= 0.01 else f"{value * 3600:.2g}/h"
