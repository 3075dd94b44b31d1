"""The two formats of SAVE in one directory: which one is written, which one is loaded, and rejected starts."""

from __future__ import annotations

import pytest

from engine.settings.kinds import ConfigError
from engine.shell.durability import check
from engine.shell.durability.position import Position
from tests.engine.core.formats.rdb_files import file_of, key, old_forms, packed, ziplist
from tests.engine.core.formats.rdb_files import read as rdb
from tests.faults.engines import Engine
from tests.harness.replay import NOW_US

SETTINGS = {"appendonly": "no", "save": "", "enable_debug_command": "yes"}


def names(path):
    return sorted(file.name for file in path.iterdir())


def test_save_format_chooses_the_file(tmp_path):
    """SAVE writes dump.rdb, or dump.psb if save-format is psb; so does DEBUG RELOAD."""
    engine = Engine(tmp_path, **SETTINGS)
    engine.run("SET k v")
    engine.run("SAVE")
    assert names(tmp_path) == ["dump.rdb"]
    assert rdb((tmp_path / "dump.rdb").read_bytes())[1].keys == 1
    engine.run("CONFIG SET save-format psb")
    for line in ("SAVE", "DEBUG RELOAD"):
        engine.run(line)
        assert engine.run("GET k") == b"v"
        assert (tmp_path / "dump.psb").read_bytes().startswith(b"PYSTREAMS-BASE")
        (tmp_path / "dump.psb").unlink()
    engine.die()
    other = Engine(tmp_path, **SETTINGS, dbfilename="other", save_format="psb")
    other.run("SAVE")
    assert names(tmp_path) == ["dump.rdb", "other.psb"]


@pytest.mark.parametrize("newest", ["rdb", "psb"])
def test_startup_loads_the_file_that_was_saved_last(tmp_path, newest):
    """Of two files, startup loads the file whose content has the later timestamp; file names do not matter."""
    engine = Engine(tmp_path, **SETTINGS)
    for name in ("psb", "rdb") if newest == "rdb" else ("rdb", "psb"):
        engine.run(f"SET which {name}")
        engine.now_us += 1000
        engine.run(f"CONFIG SET save-format {name}")
        engine.run("SAVE")
    engine.die()
    assert names(tmp_path) == ["dump.psb", "dump.rdb"]
    assert Engine(tmp_path, **SETTINGS).run("GET which") == newest.encode()
    # Their content determines their format, not their names.
    (tmp_path / "dump.rdb").rename(tmp_path / "x")
    (tmp_path / "dump.psb").rename(tmp_path / "dump.rdb")
    (tmp_path / "x").rename(tmp_path / "dump.psb")
    assert Engine(tmp_path, **SETTINGS).run("GET which") == newest.encode()


def test_startup_never_falls_back_to_the_older_file(tmp_path):
    """If the newer of two files is damaged, startup fails and names it, because the older file has other data."""
    engine = Engine(tmp_path, **SETTINGS)
    for name in ("psb", "rdb"):
        engine.run("INCR n")
        engine.now_us += 1000
        engine.run(f"CONFIG SET save-format {name}")
        engine.run("SAVE")
    engine.die()
    path = tmp_path / "dump.rdb"
    data = path.read_bytes()
    for wrong in (data[:-9] + b"?" + data[-8:], data[:20], data[:3], data + b"behind"):
        path.write_bytes(wrong)
        with pytest.raises(ConfigError, match=r"dump\.rdb, byte"):
            Engine(tmp_path, **SETTINGS)


def test_info_counts_the_loaded_keys(tmp_path):
    """INFO reports how many keys the last RDB file contained, and how many had expired."""
    (tmp_path / "dump.rdb").write_bytes(old_forms())
    info = Engine(tmp_path, **SETTINGS, now_us=NOW_US).run("INFO persistence").decode()
    assert "rdb_last_load_keys_loaded:4\r\n" in info
    assert "rdb_last_load_keys_expired:1\r\n" in info


@pytest.mark.parametrize("save_format", ["rdb", "psb"])
def test_a_file_has_its_position_in_the_history(tmp_path, save_format):
    """A start restores the replication position of the file, and keeps expired keys.

    The master may have extended their deadlines.
    """
    engine = Engine(tmp_path, **SETTINGS, save_format=save_format)
    position = Position(b"a" * 40, 5, 3)
    engine.durability.set_position_source(lambda: position)
    engine.run(f"SET k v PXAT {NOW_US // 1000 + 10}")
    engine.run("SAVE")
    engine.die()
    again = Engine(tmp_path, **SETTINGS, save_format=save_format, now_us=NOW_US + 10**9)
    assert again.durability.loaded == position
    assert len(again.core.databases[0]) == 1


def test_a_log_of_redis_before_seven(tmp_path):
    """A file with RDB data followed by commands is loaded completely; a torn end is cut off."""
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    base = file_of(key(13, b"h", packed(ziplist([b"f", b"1"]))), magic=b"REDIS0009")
    tail = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*4\r\n$7\r\nHINCRBY\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\n2\r\n"
    path = folder / "appendonly.aof"
    path.write_bytes(base + tail + b"*2\r\n$3\r\nDE")
    (folder / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof seq 1 type b\n")
    lines: list[str] = []
    assert check.main([str(folder)], lines.append) == check.DAMAGED
    assert f"damaged at byte {len(base + tail)}: " in "\n".join(lines)
    assert Engine(tmp_path).run("HGET h f") == b"3"
    assert path.read_bytes() == base + tail
    assert check.main([str(tmp_path)], lines.append) == check.WHOLE
