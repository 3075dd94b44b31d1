"""Documents: files on the disk that name segment files, such as the log's base and snapshots.

It knows of each document which segment files it names, and so which ones must stay although nothing in memory refers to
them. It never knows what is in a segment file.
"""

from __future__ import annotations

from pathlib import Path

from engine.shell.durability.files import Files


class Documents:
    """The documents of one engine. Segment files are known by their numbers."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._named: dict[Path, frozenset[int]] = {}
        #: A document could not be read. It may name any segment file, so none is to be deleted.
        self.keeps_all = False

    def note(self, document: Path, numbers: frozenset[int]) -> None:
        """A document that names these files is on the disk, or about to be; what it named before counts no more."""
        self._named[document] = numbers

    def named_by(self, document: Path) -> frozenset[int]:
        """The files that a document names."""
        return self._named.get(document, frozenset())

    def named(self) -> set[int]:
        """The files that any document names which is still on the disk."""
        self._named = {path: found for path, found in self._named.items() if self._files.size(path) >= 0}
        return {number for numbers in self._named.values() for number in numbers}

    def named_only_in(self, folder: Path) -> set[int]:
        """The files that documents of this folder name, and no others."""
        inside = {number for path, found in self._named.items() if path.parent == folder for number in found}
        outside = {number for path, found in self._named.items() if path.parent != folder for number in found}
        return inside - outside
