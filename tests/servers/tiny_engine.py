"""An engine as a process whose streams have segments of a few entries, which are cold at once: ``python -m
tests.servers.tiny_engine`` takes what ``python -m engine`` takes.

Small data have many segments then, so a test of a second meets what otherwise takes millions of entries.
"""

from __future__ import annotations

import sys

from engine.__main__ import main
from engine.core.commands.streams.entries import column_ranges
from engine.core.streams import segment
from engine.core.streams.compressed import packed
from engine.core.streams.entries import Plain
from engine.shell.housekeeping import cold_packer

if __name__ == "__main__":
    column_ranges._FEW = 1
    column_ranges._keeps_columns = lambda body: not isinstance(body, Plain)  # whatever its entries are kept as
    segment.SEGMENT_BYTES, segment.SEGMENT_ENTRIES, packed.CHUNK_BYTES = 1500, 10, 400
    cold_packer._PERIOD = 0.005
    sys.exit(main([*sys.argv[1:], "--stream-cold-age", "0"]))
