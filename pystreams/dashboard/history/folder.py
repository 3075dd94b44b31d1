"""The state directory, which has the audit log, readable only by the owner."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

AUDIT = "audit.jsonl"
_MODE = 0o700


def default(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the dashboard's state directory: below XDG_STATE_HOME, or else below `~/.local/state`."""
    home = environment.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "pystreams" / "dashboard"


def prepared(folder: Path) -> Path:
    """Create a folder with mode 0700, or set this mode on an existing folder of this user. Raises OSError."""
    folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
    folder.chmod(_MODE)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(None, "it is not writable")
    return folder
