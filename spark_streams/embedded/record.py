"""State of an embedded engine: one small file that the supervisor replaces atomically and the launcher reads.

The supervisor creates the file when it has started the engine, and removes the file when the engine ends. If the engine
failed to start, the file remains.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from spark_streams.embedded.life import State
from spark_streams.embedded.processes import Process

#: Prefix of a user's directory in the temporary directory. It has a subdirectory for each driver, named by the text of
#: the driver's `Process`.
PREFIX = "pystreams-"

_NAME = "state.json"


@dataclass(frozen=True)
class Record:
    """The state and the processes, with the URL of a ready engine or the reason why it failed."""

    state: State
    supervisor: Process
    engine: Process | None = None
    url: str = ""
    reason: str = ""
    missing: str = ""  # name of the missing package, if the engine failed because of it

    def usable(self) -> bool:
        """Return whether the engine accepts clients."""
        return self.state is State.READY and self.engine is not None and self.engine.runs()

    def write(self, directory: Path) -> None:
        """Replace the directory's record atomically: readers see either the old record or this one."""
        values = asdict(self) | {
            "state": self.state.value,
            "supervisor": str(self.supervisor),
            "engine": None if self.engine is None else str(self.engine),
        }
        draft = directory / (_NAME + ".new")
        draft.write_text(json.dumps(values))
        draft.replace(directory / _NAME)


def read(directory: Path) -> Record | None:
    """Return the directory's record; None if it does not exist."""
    try:
        values = json.loads((directory / _NAME).read_text())
    except FileNotFoundError:
        return None
    supervisor = Process.parse(values["supervisor"])
    assert supervisor is not None
    engine = None if values["engine"] is None else Process.parse(values["engine"])
    return Record(**values | {"state": State(values["state"]), "supervisor": supervisor, "engine": engine})


def remove(directory: Path) -> None:
    (directory / _NAME).unlink(missing_ok=True)
