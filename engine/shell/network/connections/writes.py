"""Writing to connections: joining short buffers of long replies, and discarding writes after the close."""

from __future__ import annotations

import asyncio

from engine.wire.encode import LONG, Out


class _Gone(asyncio.Transport):
    """Transport of a closed connection, for code that still refers to the connection."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: it is already closed."""

    def abort(self) -> None:
        """Do nothing: it is already closed."""

    def get_write_buffer_size(self) -> int:
        return 0


#: Shared by all closed connections.
GONE = _Gone()


def gathered(parts: Out) -> Out:
    """Return the parts with adjacent short parts joined, and long parts unchanged."""
    out: Out = []
    run: Out = []
    for part in parts:
        if len(part) < LONG:
            run.append(part)
        else:
            if run:
                out.append(b"".join(run))
                run = []
            out.append(part)
    if run:
        out.append(b"".join(run))
    return out
