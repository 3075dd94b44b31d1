"""What releases have stored is readable by today's code, and today's code stores it in the same form as the last one.

If a test fails here, a format has changed. Data of a release must stay readable: repair the reading. If only the form
that is written has changed, and on purpose, docs/reference/stability.md says what that means for the version number.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import redis

from engine.version import ENGINE_VERSION
from spark_streams.errors import WriteError
from tests import servers
from tests.engine.shell.durability.test_every_type_changes_hands import as_commands
from tests.faults.engines import Engine
from tests.golden import scenarios
from tests.spark_streams.driver import OldQuery, Site
from tests.spark_streams.write.commit.test_attempts import Attempt, numbers

#: Releases with golden files, oldest first; the last one's forms are those of today.
RELEASES = ("1.0.0rc1",)


def _stored(release: str, folder: str, name: str) -> Any:
    return json.loads((scenarios.RELEASES / release / folder / f"{name}.json").read_text())


def test_the_releases_are_listed() -> None:
    """Every directory is tested, and the current version has one."""
    directories = {path.name for path in scenarios.RELEASES.iterdir() if path.is_dir() and path.name[0].isdigit()}
    assert directories == set(RELEASES)
    assert RELEASES[-1] == ENGINE_VERSION


@pytest.mark.parametrize("release", RELEASES)
def test_every_file_is_read(release: str) -> None:
    """A situation that is no longer in the code, but in a release, would be a format that is not tested."""
    for folder, known in (("reads", scenarios.READS), ("writes", scenarios.WRITES)):
        names = {path.stem for path in (scenarios.RELEASES / release / folder).iterdir()}
        assert names <= known.keys()
    forms = {path.name for path in (scenarios.RELEASES / release / "engine").iterdir() if path.is_dir()}
    assert forms <= scenarios.ENGINES.keys()


@pytest.mark.parametrize("name", scenarios.READS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_query_goes_on_from_a_release_s_checkpoint(engine_site: Site, release: str, name: str) -> None:
    """The unfinished batch has the same rows again, and the next batches have all others, once."""
    stored = _stored(release, "reads", name)
    query = scenarios.put_read(engine_site, name, stored)
    if isinstance(query, OldQuery):
        scenarios.add_entries(engine_site, 25, 5)
        assert [row["n"] for row in query.available_now(unfinished=True)] == [*range(25, 30)]
        assert query.batches[0] == stored["rows"]
    else:
        rows = query.run()
        assert sorted(rows, key=_place) == sorted(stored["rows"], key=_place)
        scenarios.add_entries(engine_site, 20, 5)
        seen = sorted(row["n"] for row in [*rows, *query.drain()])
        before = stored["log"][-2]["streams"].values() or [f"{rows[0]['n']}-1"]  # the entry n has the ID (n + 1)-1
        assert seen == sorted(n for last in before for n in range(int(last.partition("-")[0]), 25))
    query.reader.stop()


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["n"], int(row["_id"].partition("-")[0])


#: The rows of each batch of a write, by partition, and the rows in the stream once they were all written.
_ROWS = {
    "committed": (0, "exactlyOnce", [range(20), range(20, 40)], range(40)),
    "direct": (1, "exactlyOnce", [range(100, 120), range(120, 140)], [*range(40), *range(100, 140)]),
    "atomic": (0, "atomic", [range(20), range(20, 40)], range(40)),
    "staged": (0, "staged", [range(20), range(20, 40)], range(40)),
    "prepared": (0, "staged", [range(20), range(20, 40)], range(40)),
}


@pytest.mark.redis
@pytest.mark.parametrize("name", scenarios.WRITES)
@pytest.mark.parametrize("release", RELEASES)
def test_a_write_is_finished_from_a_release_s_records(
    client: redis.Redis, place: servers.Running, release: str, name: str
) -> None:
    """A replay brings the rows that are missing, and no other; so does its repetition; the next batch follows."""
    scenarios.put_write(client, _stored(release, "writes", name))
    batch, mode, tasks, wanted = _ROWS[name]
    for attempt in ("second", "third"):
        replay = Attempt(place.url, attempt, mode, batch)
        for partition, rows in enumerate(tasks):
            replay.task(partition, rows)
        replay.commit()
        assert sorted(numbers(client)) == [*wanted]
    Attempt(place.url, "next", mode, batch + 1).task(0, [7000]).commit()
    assert numbers(client)[-1] == 7000
    assert client.keys("*staged*") == []


@pytest.mark.redis
@pytest.mark.parametrize("release", RELEASES)
def test_other_rows_than_a_release_s_fence_counts_are_refused(
    client: redis.Redis, place: servers.Running, release: str
) -> None:
    """The digest in a release's fence is compared with that of the rows that a replay brings."""
    scenarios.put_write(client, _stored(release, "writes", "direct"))
    before = numbers(client)
    with pytest.raises(WriteError, match="REPLAY_DIFFERS"):
        Attempt(place.url, "second", batch=1).task(0, range(100, 120)).task(1, range(121, 141)).commit()
    assert numbers(client) == before


@pytest.mark.parametrize("name", scenarios.ENGINES)
@pytest.mark.parametrize("release", RELEASES)
def test_an_engine_starts_on_a_release_s_data(tmp_path: Path, release: str, name: str) -> None:
    """Every key is there with its type, value and deadline; streams have their groups and pending entries."""
    directory = scenarios.RELEASES / release / "engine"
    shutil.copytree(directory / name, tmp_path / "data")
    engine = Engine(tmp_path / "data", **scenarios.ENGINES[name])
    found, wanted = scenarios.contents(engine), scenarios.read_contents(directory)
    engine.close()
    engine.die()
    if name in scenarios.OF_COMMANDS:
        found, wanted = as_commands(found), as_commands(wanted)
    assert found == wanted


@pytest.mark.parametrize("name", scenarios.READS)
def test_offsets_have_the_form_of_the_last_release(engine_site: Site, name: str) -> None:
    """Only drawn IDs differ: an older release of the same major version reads them."""
    written = scenarios.write_read(engine_site, name)
    assert scenarios.form(written["log"]) == scenarios.form(_stored(RELEASES[-1], "reads", name)["log"])


@pytest.mark.parametrize("name", scenarios.WRITES)
def test_records_have_the_form_of_the_last_release(engine_site: Site, name: str) -> None:
    """The keys, their fields and values are the same but for drawn IDs and times."""
    written = json.loads(json.dumps(scenarios.write_write(engine_site, name)))
    assert scenarios.form(written) == scenarios.form(_stored(RELEASES[-1], "writes", name))


#: Length of a file's start with magic and version, where compressed bytes follow, which depend on the compressor.
_STARTS = {".rdb": 9, ".psb": 20, ".pss": 20}


@pytest.mark.parametrize("name", scenarios.ENGINES)
def test_engine_data_have_the_form_of_the_last_release(name: str, tmp_path: Path) -> None:
    """The same files, of the same versions; logs and the uncompressed snapshot have the same bytes."""
    starts = {} if name == "psb-uncompressed" else _STARTS
    scenarios.write_engine(tmp_path, name)
    assert _files(tmp_path, starts) == _files(scenarios.RELEASES / RELEASES[-1] / "engine" / name, starts)


def _files(directory: Path, starts: dict[str, int]) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes()[: starts.get(path.suffix)] for path in files}
