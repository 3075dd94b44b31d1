"""Data stored by releases is readable by today's code, which stores it in the same form as the last release.

If a test fails here, a format has changed. Data of a release must stay readable: fix the reader. If only the written
form has changed, and on purpose, docs/reference/stability.md says what that means for the version number.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import redis

from engine.settings.kinds import ConfigError
from engine.version import ENGINE_VERSION
from spark_streams.errors import WriteError
from tests import servers
from tests.engine.shell.durability.test_every_type_changes_hands import as_commands
from tests.faults.engines import Engine
from tests.golden import scenarios
from tests.spark_streams.driver import OldQuery, Site
from tests.spark_streams.write.test_attempts import Attempt, numbers

#: Releases with golden files, oldest first; today's code must write the forms of the last one.
RELEASES = ("1.0.0rc1",)


def _stored(release: str, folder: str, name: str) -> Any:
    return json.loads((scenarios.RELEASES / release / folder / f"{name}.json").read_text())


def test_the_releases_are_listed() -> None:
    """The directories are those of the listed releases, which include the current version."""
    directories = {path.name for path in scenarios.RELEASES.iterdir() if path.is_dir() and path.name[0].isdigit()}
    assert directories == set(RELEASES)
    assert RELEASES[-1] == ENGINE_VERSION


@pytest.mark.parametrize("release", RELEASES)
def test_every_file_belongs_to_a_situation(release: str) -> None:
    """Each situation of a release still exists in the code; otherwise its format would not be tested."""
    for folder, known in (("reads", scenarios.READS), ("writes", scenarios.WRITES)):
        names = {path.stem for path in (scenarios.RELEASES / release / folder).iterdir()}
        assert names <= known.keys()
    forms = {path.name for path in (scenarios.RELEASES / release / "engine").iterdir() if path.is_dir()}
    assert forms <= scenarios.ENGINES.keys()


@pytest.mark.parametrize("name", scenarios.READS)
@pytest.mark.parametrize("release", RELEASES)
def test_a_query_continues_from_a_release_s_checkpoint(engine_site: Site, release: str, name: str) -> None:
    """The unfinished batch has the same rows again, and the next batches have all other rows, once."""
    stored = _stored(release, "reads", name)
    query = scenarios.put_read(engine_site, name, stored)
    if isinstance(query, OldQuery):
        scenarios.add_entries(engine_site, 25, 5)
        assert [row["n"] for row in query.available_now(unfinished=True)] == [*range(25, 30)]
        assert query.batches[0] == stored["rows"]
    else:
        rows = query.run()
        assert sorted(rows, key=_number_and_id) == sorted(stored["rows"], key=_number_and_id)
        scenarios.add_entries(engine_site, 20, 5)
        seen = sorted(row["n"] for row in [*rows, *query.drain()])
        before = stored["log"][-2]["streams"].values() or [f"{rows[0]['n']}-1"]  # Entry n has the ID (n + 1)-1.
        assert seen == sorted(n for last in before for n in range(int(last.partition("-")[0]), 25))
    query.reader.stop()


def _number_and_id(row: dict[str, Any]) -> tuple[int, int]:
    """Return the sort key of a row."""
    return row["n"], int(row["_id"].partition("-")[0])


#: For each write: number and mode of its batch, rows of each partition, and the stream's rows after the write.
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
def test_a_replay_completes_a_release_s_write(
    client: redis.Redis, instance: servers.Running, release: str, name: str
) -> None:
    """A replay adds only the missing rows, repeating it adds none, and the next batch works."""
    scenarios.put_write(client, _stored(release, "writes", name))
    batch, mode, tasks, wanted = _ROWS[name]
    for attempt in ("second", "third"):
        replay = Attempt(instance.url, attempt, mode, batch)
        for partition, rows in enumerate(tasks):
            replay.task(partition, rows)
        replay.commit()
        assert sorted(numbers(client)) == [*wanted]
    Attempt(instance.url, "next", mode, batch + 1).task(0, [7000]).commit()
    assert numbers(client)[-1] == 7000
    assert client.keys("*staged*") == []


@pytest.mark.redis
@pytest.mark.parametrize("release", RELEASES)
def test_a_replay_with_other_rows_than_in_a_release_s_fence_fails(
    client: redis.Redis, instance: servers.Running, release: str
) -> None:
    """A replay whose rows differ from the digest in a release's fence fails and writes nothing."""
    scenarios.put_write(client, _stored(release, "writes", "direct"))
    before = numbers(client)
    with pytest.raises(WriteError, match="REPLAY_DIFFERS"):
        Attempt(instance.url, "second", batch=1).task(0, range(100, 120)).task(1, range(121, 141)).commit()
    assert numbers(client) == before


@pytest.mark.parametrize("name", scenarios.ENGINES)
@pytest.mark.parametrize("release", RELEASES)
def test_an_engine_starts_with_a_release_s_data(tmp_path: Path, release: str, name: str) -> None:
    """Every key has its type, value and deadline; streams have their groups and pending entries."""
    directory = scenarios.RELEASES / release / "engine"
    shutil.copytree(directory / name, tmp_path / "data")
    engine = Engine(tmp_path / "data", **scenarios.ENGINES[name])
    found, wanted = scenarios.contents(engine), scenarios.read_contents(directory)
    engine.close()
    engine.die()
    if name in scenarios.OF_COMMANDS:
        found, wanted = as_commands(found), as_commands(wanted)
    assert found == wanted


#: Types in the files of 1.0.0rc1 that the engine no longer stores.
_UNSUPPORTED = ("lists", "sets", "sorted sets", "expiring hash fields", "Lua scripts and functions")


@pytest.mark.parametrize("name", ["rdb", "psb", "log", "log-after-psb", "segments-on-disk"])
def test_data_of_1_0_0rc1_with_other_types_is_refused_or_loaded_in_part(tmp_path: Path, name: str) -> None:
    """A start names the types and changes no file; with skip-unsupported-types, all other keys are loaded, and the
    original is kept.
    """
    release = scenarios.RELEASES / "1.0.0rc1"
    data = shutil.copytree(release / "engine-all-types" / name, tmp_path / "data")
    before = _files(data, {})
    settings = scenarios.ENGINES[name]
    with pytest.raises(ConfigError, match=r"types: .*lists: 2 \(first: key 'list' of database 0\)") as error:
        Engine(data, **settings)
    assert all(f"{kind}: " in str(error.value) for kind in _UNSUPPORTED)
    assert _files(data, {}) == before
    engine = Engine(data, **settings, skip_unsupported_types="yes")
    found, wanted = scenarios.contents(engine), scenarios.read_contents(release / "engine")
    if settings.get("appendonly") == "no":
        engine.run("SAVE")
    engine.close()
    engine.die()
    if name in scenarios.OF_COMMANDS:
        found, wanted = as_commands(found), as_commands(wanted)
    assert found == wanted
    kept = {path.replace("original-1-", ""): data for path, data in _files(data, {}).items() if "original-1-" in path}
    assert kept == {path: data for path, data in before.items() if not path.startswith("segments")}
    again = Engine(data, **settings)
    assert again.run("DBSIZE") == len(wanted)


@pytest.mark.parametrize("name", scenarios.READS)
def test_offsets_have_the_form_of_the_last_release(engine_site: Site, name: str) -> None:
    """Offsets differ from those of the last release only in random IDs, so an older release can read them."""
    written = scenarios.write_read(engine_site, name)
    assert scenarios.form(written["log"]) == scenarios.form(_stored(RELEASES[-1], "reads", name)["log"])


#: Fields of records that are newer than the last release.
_NEW_FIELDS = re.compile("chunk:[0-9]+|sealer")


def _without(names: re.Pattern[str], stored: Any) -> Any:
    """Return a stored value without the fields whose names match."""
    if isinstance(stored, dict):
        return {name: _without(names, value) for name, value in stored.items() if not names.fullmatch(name)}
    return [_without(names, each) for each in stored] if isinstance(stored, list) else stored


@pytest.mark.parametrize("name", scenarios.WRITES)
def test_records_have_the_form_of_the_last_release(engine_site: Site, name: str) -> None:
    """The keys, their fields and values are those of the last release except for random IDs, times, and new fields that
    the last release does not read.
    """
    written = _without(_NEW_FIELDS, json.loads(json.dumps(scenarios.write_write(engine_site, name))))
    assert scenarios.form(written) == scenarios.form(_stored(RELEASES[-1], "writes", name))


#: Number of bytes at the start of a file that are compared: magic and version, without compressed bytes.
_STARTS = {".rdb": 9, ".psb": 20, ".pss": 20}


@pytest.mark.parametrize("name", scenarios.WRITTEN)
def test_engine_data_has_the_form_of_the_last_release(name: str, tmp_path: Path) -> None:
    """Files and versions are those of the last release; logs and the uncompressed snapshot have the same bytes."""
    starts = {} if name == "psb-uncompressed" else _STARTS
    scenarios.write_engine(tmp_path, name)
    assert _files(tmp_path, starts) == _files(scenarios.RELEASES / RELEASES[-1] / "engine" / name, starts)


def _files(directory: Path, starts: dict[str, int]) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes()[: starts.get(path.suffix)] for path in files}
