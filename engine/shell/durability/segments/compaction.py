"""Choosing the segment file to empty: its live records are written again elsewhere, and the file is deleted.

It is the file with the largest dead share, if that is more than half of it, or if more than a quarter of all files is
dead and that amounts to a whole file. So files exceed their live content by at most a third, plus one file. For each
reclaimed byte at most three are rewritten. Streams that are trimmed from their start need no rewriting, because their
files die one after another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.shell.durability.segments.file import SegmentFile

#: Dead share above which a file is emptied, and dead share of all files above which the worst file is.
_DEAD_SHARE, _DEAD_SHARE_OF_ALL = 0.5, 0.25


def next_to_empty(found: Sequence[SegmentFile], doubtful: Collection[int], file_size: int) -> SegmentFile | None:
    """Return the file whose records are to be moved now; None if it is not worth it.

    ``found``: files with live records that are no longer written to; ``doubtful``: numbers of files whose content on
    disk is uncertain, which go first; ``file_size``: size of a full file in bytes.
    """
    for file in found:
        if file.number in doubtful:
            return file
    worst = max(found, key=lambda file: file.dead / file.size, default=None)
    if worst is None or worst.dead > _DEAD_SHARE * worst.size:
        return worst
    dead, size = sum(file.dead for file in found), sum(file.size for file in found)
    return worst if dead >= max(_DEAD_SHARE_OF_ALL * size, file_size) else None
