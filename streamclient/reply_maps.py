"""Replies as dictionaries: the lines of INFO, alternating names and values, and the fields of one line."""

from __future__ import annotations

from typing import Any


def info_lines(reply: Any) -> dict[str, str]:
    """Return the `name:value` lines of a reply to INFO, with Redis's names; empty for an error reply."""
    text = reply.decode("utf-8", "backslashreplace") if isinstance(reply, bytes) else ""
    text = text.replace("\nserver_mode:", "\nredis_mode:")  # Valkey 9
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line and not line.startswith("#"))


def line_fields(line: str, separator: str) -> dict[str, str]:
    """Return the `name=value` fields of one line, as in CLIENT LIST (space) and in values of INFO (comma)."""
    return dict(field.split("=", 1) for field in line.split(separator) if "=" in field)


def pairs(reply: Any) -> dict[bytes, Any]:
    """Return a reply of alternating names and values."""
    return dict(zip(reply[0::2], reply[1::2], strict=True))
