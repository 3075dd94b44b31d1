"""Files that contain types that the engine does not store: they are refused, or kept before they are replaced.

With ``skip-unsupported-types``, a file is loaded without the keys of these types. The file that replaces it lacks them.
So when the original is loaded, it gets a second name next to it, ``original-1-NAME`` or the next free number. A later
process then needs not know how the data was loaded. The log's directory gets such a copy as a whole, which any server
that stores these types can load. The names are hard links: they need no space, and a crash between two steps loses
neither name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from engine.core.formats.damage import ForeignError
from engine.core.formats.unsupported_types import UnsupportedTypes, UnsupportedTypesError
from engine.settings.config import Config
from engine.shell.durability.files import Files
from engine.shell.durability.segments.documents import Documents
from engine.shell.observation.log_lines import LOG


class Originals:
    """The files of one engine that are loaded in part, and their copies."""

    def __init__(self, config: Config, files: Files, documents: Documents) -> None:
        self._config = config
        self._files = files
        self._documents = documents
        #: Number of items that the last load left out.
        self.left_out = 0

    @property
    def skips(self) -> bool:
        """Whether keys of unsupported types are left out."""
        return self._config.flag("skip-unsupported-types")

    def loaded(self, path: Path, found: UnsupportedTypes) -> None:
        """Record that a file, or the log in a directory, was loaded without the items in ``found``. If there are any,
        the caller keeps the original. Raises ForeignError if they must not be left out.
        """
        self.left_out = found.total
        if not found:
            return
        if not self.skips:
            reason = f"{UnsupportedTypesError(found).reason}; 'skip-unsupported-types yes' loads the rest"
            raise ForeignError(found.offset, reason)
        LOG.warning("%s: left out %s (skip-unsupported-types)", path, found)

    def keep(self, path: Path) -> None:
        """Keep a file, if it exists and an earlier start has not kept it. Raises OSError on failure."""
        files = self._files
        if files.size(path) < 0:
            return
        kept = re.compile(rf"original-[0-9]+-{re.escape(path.name)}")
        others = [path.with_name(name) for name in files.names(path.parent) if kept.fullmatch(name)]
        if not any(files.is_same(path, other) for other in others):
            target = next(name for name in _names(path) if name not in others)
            self._link(path, target)
            _log_kept(path, target)
        files.sync_directory(path.parent)

    def keep_log(self, folder: Path, names: list[str]) -> None:
        """Keep these files of a log's directory. The last one is the manifest, which completes the copy. Raises OSError
        on failure.
        """
        target = next(
            other for other in _names(folder) if all(self._is_free(folder / name, other / name) for name in names)
        )
        self._files.make_directory(target)
        for name in names:
            self._link(folder / name, target / name)
        self._files.sync_directory(target)
        self._files.sync_directory(folder.parent)
        _log_kept(folder, target)

    def _is_free(self, path: Path, target: Path) -> bool:
        """Return whether a name is free, or was given to the same file before a crash."""
        return self._files.size(target) < 0 or self._files.is_same(path, target)

    def _link(self, path: Path, target: Path) -> None:
        if self._files.size(target) < 0:
            self._files.link(path, target)
        self._documents.note(target, self._documents.named_by(path))


def _log_kept(path: Path, target: Path) -> None:
    LOG.warning("kept the original of %s as %s", path, target)


def _names(path: Path) -> Iterator[Path]:
    """Return the possible names of a path's copy."""
    return (path.with_name(f"original-{number}-{path.name}") for number in count(1))
