"""Which streams a query reads, and where the user wants it to start and to end in each."""

from __future__ import annotations

from collections.abc import Sequence

from spark_streams.config.positions import Position
from spark_streams.config.read import ReadOptions
from spark_streams.server.api import StreamServer


def streams_of(options: ReadOptions, server: StreamServer) -> Sequence[str]:
    """The streams that the options name, or those that match their pattern now."""
    return options.streams if options.pattern is None else server.find_streams(options.pattern)


def start_of(options: ReadOptions, stream: str, otherwise: Position) -> Position:
    """Where reading starts in a stream; `otherwise` if the user does not say."""
    return otherwise if options.starting is None else options.starting.get(stream, otherwise)


def end_of(options: ReadOptions, stream: str, otherwise: Position) -> Position:
    """Where reading ends in a stream; `otherwise` if the user does not say."""
    return otherwise if options.ending is None else options.ending.get(stream, otherwise)
