"""Directory of a driver's engine: other objects at its path, and its removal."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from spark_streams.embedded import drivers, launcher
from spark_streams.embedded.drivers import Process
from spark_streams.errors import EmbeddedError
from tests.spark_streams.embedded.test_embedded import Run, line, run, state, tmp_path, wait_until_removed

__all__ = ["run", "tmp_path"]


@pytest.mark.parametrize(
    "kind", ["file", "link to a file", "link to a directory", "link to nothing", "open", "foreign"]
)
def test_another_object_at_its_path_is_not_used(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the path of the engine's directory, a file, a link, or a directory that another user owns or can access is an
    error that names TMPDIR.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted, target = tmp_path / f"pystreams-{os.getuid()}", tmp_path / "target"
    if kind == "file":
        planted.touch()
    elif kind == "link to a file":
        target.touch()
        planted.symlink_to(target)
    elif kind == "link to a directory":
        target.mkdir()
        planted.symlink_to(target)
    elif kind == "link to nothing":
        planted.symlink_to(target)
    else:
        planted.mkdir(mode=0o700)
        if kind == "open":
            planted.chmod(0o770)
        else:
            other = os.getuid() + 1
            monkeypatch.setattr(os, "getuid", lambda: other)
            planted.rename(tmp_path / f"pystreams-{other}")
    with pytest.raises(
        EmbeddedError, match=r"EMBEDDED_NO_DIRECTORY.*not a directory that only this user can access.*TMPDIR"
    ):
        drivers.make_directory(Process.of(os.getpid()))
    assert not target.is_dir() or not [*target.iterdir()]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full, the error contains the reason."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", full)
        with pytest.raises(EmbeddedError, match=r"EMBEDDED_NO_DIRECTORY.*No space left on device.*TMPDIR"):
            drivers.make_directory(Process.of(os.getpid()))
    monkeypatch.setattr(drivers, "find", lambda **_: (Process.of(os.getpid()), tmp_path))
    monkeypatch.setenv(launcher.COMMAND, f"{sys.executable} -c pass")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EmbeddedError, match=r"EMBEDDED_NO_DIRECTORY.*No space left on device"):
        launcher.address()


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """If the data directory cannot be created, the error names its path and the settings for it."""
    (tmp_path / "file").touch()
    with pytest.raises(
        EmbeddedError, match=r"EMBEDDED_NO_DATA.*file/data: Not a directory.*embedded\.dir.*PYSTREAMS_HOME"
    ):
        launcher.address(str(tmp_path / "file" / "data"))


REMOVED = """
    import os, shutil, sys
    from pathlib import Path
    from spark_streams.embedded import drivers, launcher
    from spark_streams.errors import EmbeddedError
    launcher._ENDING_SECONDS = 0.1
    print(launcher.url(), flush=True)
    sys.stdin.readline()
    shutil.rmtree(Path(launcher.url().removeprefix("unix://")).parent)
    for each in ("the process that knows it", "one that Spark starts"):
        try:
            print(launcher.url(), flush=True)
        except EmbeddedError as error:
            print(error, flush=True)
        os.environ.pop(drivers.VARIABLE, None)
    sys.stdin.read()
"""


def test_no_second_engine_starts_after_its_directory_was_removed(run: Run, tmp_path: Path) -> None:
    """After a running engine's directory was removed, requests for its URL fail, and no second engine starts."""
    driver = run(REMOVED)
    line(driver)
    first = state(tmp_path)
    assert driver.stdin is not None
    driver.stdin.write("\n")
    driver.stdin.flush()
    assert "[EMBEDDED_NO_DIRECTORY]" in line(driver)
    error = line(driver)
    assert "[EMBEDDED_NO_DIRECTORY]" in error
    assert "removed while its engine runs" in error
    assert first.engine is not None
    assert first.engine.runs()
    assert not [*tmp_path.glob("pystreams-*/*/state.json")]
    driver.stdin.close()
    driver.wait()
    wait_until_removed(tmp_path, first)
