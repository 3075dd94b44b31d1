"""The slow, obvious twin of `streamclient.codec.encode`, and the oracle of its tests: builds commands value by value.

Keep it simple rather than fast. Both modules must return the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def encode_adds(
    keys: bytes | Any,
    ids: Any | None,
    columns: Sequence[tuple[bytes, Any]],
    fields: tuple[Any, Any, Any] | None,
    options: Sequence[bytes],
    rows: int,
) -> Any:
    """See `streamclient.codec.encode.encode_adds`."""
    key_list = [keys] * rows if isinstance(keys, bytes) else keys.to_pylist()
    id_list = [b"*"] * rows if ids is None else [b"*" if value is None else value for value in ids.to_pylist()]
    lists = [(name, values.to_pylist()) for name, values in columns]
    offsets, names, values = (part.to_pylist() for part in fields) if fields is not None else ([0] * (rows + 1), [], [])
    commands: list[bytes | None] = []
    for row in range(rows):
        pairs: list[bytes] = []
        for name, column in lists:
            if column[row] is not None:
                pairs += [name, column[row]]
        for at in range(offsets[row], offsets[row + 1]):
            pairs += [names[at], values[at]]
        words = [b"XADD", key_list[row], *options, id_list[row], *pairs]
        command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        commands.append(command if pairs else None)
    return pa.array(commands, pa.binary())
