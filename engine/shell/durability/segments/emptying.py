"""Which segment file is emptied: its live records are written again elsewhere, and the file is deleted.

It is the one with the largest dead part, if that is more than half of it, or if more than a quarter of all files is
dead and that is worth a whole file. So files take at most a third more than what is live in them, and one file; for
each byte that is reclaimed at most three are written again, and none of a stream that is trimmed from its beginning,
whose files die one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.shell.durability.segments.file import SegmentFile

#: The dead part of a file that is emptied, and of all files at which the deadest one is.
_DEAD_SHARE, _DEAD_SHARE_OF_ALL = 0.5, 0.25


def next_to_empty(found: Sequence[SegmentFile], doubtful: Collection[int], file_size: int) -> SegmentFile | None:
    """The file of which records are to be moved now; None where it is not worth it.

    ``found``: files in which something is live, and to which nothing is added; ``doubtful``: numbers of files that may
    not be on the disk as they were written, which go first; ``file_size``: bytes of a whole file.
    """
    for file in found:
        if file.number in doubtful:
            return file
    worst = max(found, key=lambda file: file.dead / file.size, default=None)
    if worst is None or worst.dead > _DEAD_SHARE * worst.size:
        return worst
    dead, size = sum(file.dead for file in found), sum(file.size for file in found)
    return worst if dead >= max(_DEAD_SHARE_OF_ALL * size, file_size) else None
