"""Documents: files on disk that refer to segment files, such as the log's base and snapshots.

This module records which segment files each document refers to. These segment files must be kept even if no segment in
memory refers to them. It does not depend on the content of segment files.
"""

from __future__ import annotations

from pathlib import Path

from engine.shell.durability.files import Files


class Documents:
    """Documents of one engine. Segment files are identified by number."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._named: dict[Path, frozenset[int]] = {}
        #: Whether to keep all segment files, because a document could not be read and may refer to any of them.
        self.keeps_all = False

    def note(self, document: Path, numbers: frozenset[int]) -> None:
        """Set the segment files that a document refers to, replacing earlier references. The document need not be on
        disk yet.
        """
        self._named[document] = numbers

    def named_by(self, document: Path) -> frozenset[int]:
        """Return the segment files that a document refers to."""
        return self._named.get(document, frozenset())

    def named(self) -> set[int]:
        """Return the segment files to which documents on disk refer. Documents that no longer exist are dropped."""
        self._named = {path: found for path, found in self._named.items() if self._files.size(path) >= 0}
        return {number for numbers in self._named.values() for number in numbers}

    def named_only_in(self, folder: Path) -> set[int]:
        """Return the segment files that only documents in this folder refer to."""
        inside = {number for path, found in self._named.items() if path.parent == folder for number in found}
        outside = {number for path, found in self._named.items() if path.parent != folder for number in found}
        return inside - outside
