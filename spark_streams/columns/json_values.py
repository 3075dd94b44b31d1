"""JSON to typed columns with Arrow's parser. The scalar fallback is `spark_streams.columns.json_reference`.

Arrow's result is used only if it certainly equals the fallback's result and no text is malformed. The fallback converts
everything else: texts that Arrow refuses, and texts and types that Arrow reads differently. The fallback is called for
small chunks, so that one such text does not slow down a whole page.

The texts are joined by line feeds, and each row of Arrow's result is one text. This holds because every text begins
with `{`, ends with `}` and contains no line feed. No JSON value can continue across a `}`, a line feed and a `{`: it
would need a comma there, or be a string, which cannot contain a line feed. So every line feed separates two rows, and
if there are as many rows as lines, each line is one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_streams.columns import connect_types, json_reference, values
from spark_streams.columns.json_reference import MOST_LEVELS, Converted
from spark_streams.columns.types.table import nullable_offsets, scalar
from streamwire.lazy import arrow_json as json
from streamwire.lazy import compute as pc

_CHUNKS = 8  # number of chunks into which a declined column is divided
_FEWEST = 32  # minimum number of texts in a chunk: with fewer, calling Arrow costs more than it saves
_LARGEST = 64 << 20  # maximum number of bytes that Arrow parses at a time


def members(column: Any, kinds: Mapping[str, Any], schema: connect_types.Schema | None = None) -> dict[str, Converted]:
    """See `json_reference.members`."""
    raw = {name: _raw(kind) for name, kind in kinds.items()}
    quick = {name: kind for name, kind in kinds.items() if raw[name] is not None}
    fields = [(name, raw[name]) for name in quick]

    def fast(texts: Any) -> dict[str, Converted] | None:
        rows = _rows(pc.if_else(_is_empty(texts), b"{}", texts), fields)
        if rows is None:
            return None
        found = {name: _typed(rows[name], kind) for name, kind in quick.items()}
        return None if None in found.values() else {name: (values, None) for name, values in found.items()}

    found = in_chunks(column, fast, lambda texts: json_reference.members(texts, quick, schema)) if quick else {}
    others = {name: kind for name, kind in kinds.items() if name not in quick}
    return {**found, **json_reference.members(column, others, schema)} if others else found


def from_text(column: Any, target: Any, schema: connect_types.Schema | None = None) -> Converted:
    """See `json_reference.from_text`."""
    raw = _raw(target)
    if raw is None:
        return json_reference.from_text(column, target, schema)

    def fast(texts: Any) -> dict[str, Converted] | None:
        missing = _is_empty(texts)
        if pa.types.is_struct(raw):
            rows = _rows(pc.if_else(missing, b"{}", texts), [(field.name, field.type) for field in raw])
            made = (
                None
                if rows is None
                else pa.StructArray.from_arrays(list(rows.values()), fields=list(raw), mask=missing)
            )
        else:
            # An additional member would mean a second value after the first, which the fallback refuses.
            texts = pc.binary_join_element_wise(b'{"":', pc.if_else(missing, b"[]", texts), b"}", b"")
            rows = _rows(texts, [("", raw)], others="error")
            made = None if rows is None else pc.if_else(missing, pa.scalar(None, raw), rows[""])
        typed = None if made is None else _typed(made, target)
        return None if typed is None else {"": (typed, None)}

    return in_chunks(column, fast, lambda texts: {"": json_reference.from_text(texts, target, schema)})[""]


def in_chunks(column: Any, fast: Any, slow: Any) -> dict[str, Converted]:
    """Return the converted column. If `fast` declines it, convert smaller chunks; chunks that `fast` still declines are
    converted by `slow`.
    """
    found: dict[str, Converted] | None = fast(column)
    if found is not None:
        return found
    size = max(_FEWEST, -(-len(column) // _CHUNKS))
    if size >= len(column):
        return slow(column)  # type: ignore[no-any-return]
    parts = [in_chunks(column.slice(start, size), fast, slow) for start in range(0, len(column), size)]
    return {name: joined([part[name] for part in parts]) for name in parts[0]}


def joined(parts: list[Converted]) -> Converted:
    """Return the concatenation of columns."""
    column = pa.concat_arrays([column for column, _ in parts])
    if all(wrong is None for _, wrong in parts):
        return column, None
    return column, pa.concat_arrays(
        [pa.repeat(pa.scalar(False), len(part)) if wrong is None else wrong for part, wrong in parts]
    )


def _is_empty(texts: Any) -> Any:
    return pc.fill_null(pc.equal(pc.binary_length(texts), 0), True)


def _rows(texts: Any, fields: list[tuple[str, Any]], others: str = "ignore") -> dict[str, Any] | None:
    """Return Arrow's columns for these members, by name and type; None if the fallback must convert the texts."""
    if not len(texts) or texts.nbytes > _LARGEST or not _are_objects(texts):
        return None
    buffer = pc.binary_join_element_wise(texts, b"", b"\n").buffers()[2]
    reading = json.ReadOptions(use_threads=False, block_size=len(buffer) + 1)
    parsing = json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior=others)
    try:
        rows = json.read_json(pa.BufferReader(buffer), reading, parsing)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    if rows.num_rows != len(texts) or rows.schema != pa.schema(fields):
        return None
    return {name: rows.column(name).combine_chunks() for name, _ in fields}


def _are_objects(texts: Any) -> bool:
    """Return whether the texts are UTF-8, not nested too deeply, and as the module's docstring requires."""
    try:
        pc.cast(texts, pa.string())
    except pa.ArrowInvalid:
        return False
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if texts.null_count or np.any(np.diff(bounds) < 2):
        return False
    characters = np.frombuffer(data, np.uint8)
    if np.any(characters[bounds[:-1]] != ord("{")) or np.any(characters[bounds[1:] - 1] != ord("}")):
        return False
    if bytes(memoryview(data)[bounds[0] : bounds[-1]]).find(b"\n") >= 0:
        return False
    if int(np.diff(bounds).max()) <= MOST_LEVELS:
        return True
    brackets = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    return bool(pc.max(brackets).as_py() <= MOST_LEVELS)


def _raw(kind: Any) -> Any:
    """Return the type that Arrow's parser reads and `_typed` converts to `kind`; None if there is no such type."""
    types = pa.types
    if types.is_list(kind):
        inner = _raw(kind.value_type)
        return None if inner is None else pa.list_(kind.value_field.with_type(inner))
    if types.is_struct(kind) and kind.num_fields and len({field.name for field in kind}) == kind.num_fields:
        inner = [_raw(field.type) for field in kind]
        return (
            None if None in inner else pa.struct([each.with_type(raw) for each, raw in zip(kind, inner, strict=True)])
        )
    if types.is_nested(kind):
        return None
    read_as = scalar(kind).json_kind
    return None if read_as is None else read_as(kind)


def _typed(column: Any, kind: Any) -> Any:
    """Return the column as `kind`; None if a value does not fit."""
    types = pa.types
    if column.type == kind:
        return column
    if types.is_list(kind):
        inner = _typed(column.values, kind.value_type)
        if inner is None:
            return None
        return pa.ListArray.from_arrays(nullable_offsets(column), inner, kind)
    if types.is_struct(kind):
        inners = [_typed(column.field(at), kind.field(at).type) for at in range(kind.num_fields)]
        if any(inner is None for inner in inners):
            return None
        return pa.StructArray.from_arrays(inners, fields=list(kind), mask=pc.is_null(column))
    if types.is_string(column.type):
        found = values.from_text(pc.cast(column, pa.binary()), kind)
        return found if found.null_count == column.null_count else None
    return pc.cast(column, kind, safe=False)
