"""An engine process whose streams have segments of a few entries that become cold at once.

``python -m tests.servers.tiny_engine`` accepts the options of ``python -m engine``. Small data has many segments then,
so a short test covers what otherwise takes millions of entries. Entries with the same fields become columns, however
long their values are and whether PS.COLUMNS reads them or not.
"""

from __future__ import annotations

import sys

from engine.__main__ import main
from engine.core.commands.streams import columns
from engine.core.streams import packer, segment
from engine.core.streams.compressed import packed
from engine.shell.housekeeping import cold_packer

if __name__ == "__main__":
    columns.FEW_ENTRIES = 1
    packer.MOST_VALUES = 1
    segment.SEGMENT_BYTES, segment.SEGMENT_ENTRIES, packed.CHUNK_BYTES = 1500, 10, 400
    cold_packer._PERIOD = 0.005
    cold_packer.Packing = lambda plain, cache, _: packer.Packing(plain, cache, as_columns=True)
    sys.exit(main([*sys.argv[1:], "--stream-cold-age", "0"]))
