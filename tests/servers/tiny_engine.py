"""An engine process whose streams have segments of a few entries, which become cold at once: ``python -m
tests.servers.tiny_engine`` accepts the options of ``python -m engine``.

Small data has many segments then, so a short test covers what otherwise takes millions of entries. Entries with the
same fields become columns, unless another ``--stream-cold-compression`` is given.
"""

from __future__ import annotations

import sys

from engine.__main__ import main
from engine.core.commands.streams.entries import column_ranges
from engine.core.streams import segment
from engine.core.streams.compressed import packed, packer
from engine.shell.housekeeping import cold_packer

if __name__ == "__main__":
    column_ranges._FEW = 1
    packer._MOST_VALUES = 1
    segment.SEGMENT_BYTES, segment.SEGMENT_ENTRIES, packed.CHUNK_BYTES = 1500, 10, 400
    cold_packer._PERIOD = 0.005
    sys.exit(main(["--stream-cold-compression", "columns", *sys.argv[1:], "--stream-cold-age", "0"]))
