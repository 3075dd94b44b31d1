"""Engines whose threads work only when the test allows it."""

from __future__ import annotations

from pathlib import Path

from tests.faults.disk import Disk
from tests.faults.engines import Engine


def life_of(directory: Path, *, at_once: bool = False, **settings: str) -> Engine:
    """Return an engine whose threads work only when the test allows it."""
    return Engine(directory, Disk(), at_once=at_once, enable_debug_command="yes", **settings)


def without_log(directory: Path, *, at_once: bool = False, **settings: str) -> Engine:
    """Return an engine like that of ``life_of``, without a log."""
    return life_of(directory, at_once=at_once, appendonly="no", **settings)


def restarted(engine: Engine, **settings: str) -> Engine:
    """Kill the engine if it is not closed, and return a new engine on the same directory."""
    engine.die()
    return life_of(engine.directory, **settings)


def ended(engine: Engine, line: str = "SHUTDOWN") -> Engine:
    """Shut the engine down, and return it."""
    engine.run(line)
    assert engine.host.ends
    engine.close()
    return engine


def entries(engine: Engine) -> list[bytes]:
    """Return the IDs in the stream ``s``."""
    return [entry[0] for entry in engine.ask("XRANGE", "s", "-", "+")]


def names(engine: Engine) -> list[str]:
    """Return the file names in the engine's directory."""
    return sorted(path.name for path in engine.directory.iterdir())


def replace_all(engine: Engine) -> None:
    """Replace all data with a master's, as at the end of a full synchronisation."""
    engine.core.databases[0].clear()
    engine.core.databases[0].add(b"of the master", b"value")
