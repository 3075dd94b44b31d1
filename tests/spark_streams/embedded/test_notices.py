"""Notices to users about the data of an embedded engine, at its start and at its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_streams.embedded import launcher, supervisor
from tests.spark_streams.embedded.test_embedded import Run, run, tmp_path
from tests.suite.waiting import DEADLINE

__all__ = ["run", "tmp_path"]

WRITER = """
    from spark_streams.embedded import launcher
    for _ in range(2):
        client = launcher.connect({directory!r})
    for name, entries in (("orders", 1200), ("a", 3), ("b", 2), ("c", 1), ("pystreams:queries", 7)):
        with client.pipeline(transaction=False) as pipeline:
            for n in range(entries):
                pipeline.xadd(name, {{"n": n}})
            pipeline.execute()
    client.xadd("done", {{"n": 1}})
    for name in ("orders", "done"):
        client.xgroup_create(name, "g", "0")
    client.xreadgroup("g", "me", {{"orders": ">"}}, count=200)
    (_, ((entry, _),)), = client.xreadgroup("g", "me", {{"done": ">"}})
    client.xack("done", "g", entry)
    {ending}
"""


def errors(run: Run, *, directory: str | None = None, ending: str = "", **environment: str) -> list[str]:
    """Return the lines of the driver's standard error after all processes have closed it."""
    driver = run(
        WRITER.format(directory=directory, ending=ending),
        None,
        subprocess.PIPE,
        **{launcher.COMMAND: "", **environment},
    )
    return driver.communicate(timeout=DEADLINE)[1].splitlines()


def test_the_start_and_the_end_are_reported_once(run: Run) -> None:
    """One line at the start reports where the data is kept, and one at the end reports the discarded entries."""
    began, ended = errors(run)
    assert began.startswith(
        "No server is named: the embedded engine keeps all streams in memory, until its driver ends"
    )
    assert "'url' or 'embedded.dir', or the environment variable PYSTREAMS_URL" in began
    assert ended.startswith("pystreams: The embedded engine kept its data in memory and ends with its driver.")
    assert "It discards 1,006 unread and 200 unacknowledged entries in 4 streams: " in ended
    assert "orders (1,000 unread, 200 pending), a (3 unread), b (2 unread) and 1 more. To keep them," in ended


def test_the_end_is_reported_if_the_driver_is_killed(run: Run) -> None:
    """If the driver is killed, the supervisor writes the notice."""
    assert "It discards 1,006 unread" in errors(run, ending="import os; os.kill(os.getpid(), 9)")[-1]


def test_the_end_of_the_engine_is_reported(run: Run) -> None:
    """If the engine ends before its driver, the last line reports the loss of its data."""
    lines = errors(run, ending="client.shutdown(nosave=True)")
    assert lines[-1].startswith("pystreams: The embedded engine ended before its driver (status ")
    assert lines[-1].endswith("are lost; the next query starts an empty engine.")


def test_the_end_of_an_engine_that_keeps_its_data_reports_no_loss(run: Run, tmp_path: Path) -> None:
    """If an engine with a data directory ends before its driver, the notice says that the data remains."""
    lines = errors(run, directory=str(tmp_path / "kept"), ending="client.shutdown(nosave=True)")
    assert lines[-1].endswith("The next query starts it again with the data in its directory.")


def test_an_engine_that_keeps_its_data_discards_nothing(run: Run, tmp_path: Path) -> None:
    assert errors(run, directory=str(tmp_path / "kept")) == []


def test_notices_can_be_silenced(run: Run) -> None:
    assert errors(run, **{supervisor.NOTICES: "off"}) == []


RUNNING = """
    import sys
    from spark_streams.embedded import launcher
    print(launcher.url({directory!r}), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("has_directory", [False, True])
def test_engines_of_this_user_are_found(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_directory: bool
) -> None:
    """`running` lists the engines with their drivers, without those whose driver has ended."""
    directory = str(tmp_path / "kept") if has_directory else None
    driver = run(RUNNING.format(directory=directory), **{launcher.COMMAND: ""})
    assert driver.stdout is not None
    url = driver.stdout.readline().strip()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (found,) = [each for each in launcher.running() if each.driver.pid == driver.pid]
    assert (found.url, found.data) == (url, directory)
    data = f"in {directory}" if has_directory else "in memory"
    assert str(found).startswith(f"{url} ({data}, of process {driver.pid}: {sys.executable[:20]}")
    driver.kill()
    driver.wait()
    assert all(each.driver.pid != driver.pid for each in launcher.running())
