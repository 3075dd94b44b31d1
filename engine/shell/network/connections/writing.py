"""How connections write: long replies as few buffers, and to nowhere once they are closed."""

from __future__ import annotations

import asyncio

from engine.wire.encode import LONG, Out


class _Gone(asyncio.Transport):
    """The transport of a connection that is closed: whoever still has the connection finds it closed."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None:
        """It is closed."""

    def abort(self) -> None:
        """It is closed."""

    def get_write_buffer_size(self) -> int:
        return 0


#: For every connection that is closed.
GONE = _Gone()


def gathered(parts: Out) -> Out:
    """The same bytes, short parts put together, long ones left where they are."""
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
