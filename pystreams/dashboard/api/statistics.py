"""Statistics of the fields of some entries: frequency, numbers and texts, the most frequent values. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from pystreams.dashboard.api import shapes
from pystreams.values import fields
from pystreams.values.fields import Entry

_MOST_FIELDS = 100
_MOST_FREQUENT = 5
_BARS = 16


def statistics(page: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the statistics of each field name, most frequent names first."""
    values: dict[bytes, list[bytes]] = defaultdict(list)
    for _, words in page:
        for key, value in dict(fields.pairs(words or [])).items():
            values[key].append(value)
    ranked = sorted(values.items(), key=lambda item: (-len(item[1]), item[0]))[:_MOST_FIELDS]
    return [_field(key, found, len(page)) for key, found in ranked]


def _field(key: bytes, found: Sequence[bytes], entries: int) -> dict[str, Any]:
    counted = Counter(found)
    numbers = [number for number in map(_number, found) if number is not None]
    numeric = bool(found) and len(numbers) == len(found)
    return {
        "name": shapes.cut(key, 300),
        "present": len(found),
        "share": len(found) / entries if entries else 0.0,
        "distinct": len(counted),
        "type": "number" if numeric else "text",
        "longest": max(map(len, found)),
        "frequent": [[shapes.cut(value, 80), count] for value, count in counted.most_common(_MOST_FREQUENT)],
        "numbers": _numbers(numbers) if numeric else None,
    }


def _number(value: bytes) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _numbers(numbers: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(numbers)
    low, high = ordered[0], ordered[-1]
    bars = [0] * _BARS
    for number in ordered:
        share = (number - low) / (high - low) if high > low else 0.0
        bars[min(_BARS - 1, int(share * _BARS))] += 1
    return {
        "min": low,
        "median": ordered[len(ordered) // 2],
        "max": high,
        "mean": math.fsum(number / len(ordered) for number in ordered),
        "bars": bars,
    }
