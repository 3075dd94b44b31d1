"""Rows of streams, groups and consumers as verbs write them: tables for people, documents for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pystreams import measures
from pystreams.measures import GroupRow, Row, StreamRow, View
from pystreams.output import Column, Output
from pystreams.streams.groups.group_states import STYLES, Consumer
from pystreams.values import names


def table(out: Output, view: View[Row], rows: Sequence[Row], *, empty: str = "") -> None:
    """Write the rows under the titles of the view's measures. `empty`: note to write if there are no rows."""
    columns = [Column(each.label, each.form.right, STYLES if each.form is measures.STATUS else None) for each in view]
    out.table(columns, [[each.text(row) for each in view] for row in rows], empty=empty)


def stream_document(view: View[StreamRow], row: StreamRow) -> dict[str, Any]:
    """Return a stream as a document for programs."""
    return {"stream": names.as_json(row.stream.name), **measures.document(view, row)}


def group_document(view: View[GroupRow], row: GroupRow) -> dict[str, Any]:
    """Return a group as a document for programs."""
    named = {"stream": names.as_json(row.group.stream.name), "group": names.as_json(row.group.name)}
    return {**named, **measures.document(view, row)}


def consumer_document(row: Consumer) -> dict[str, Any]:
    """Return a consumer as a document for programs."""
    return {"consumer": names.as_json(row.name), **measures.document(measures.CONSUMER, row)}
