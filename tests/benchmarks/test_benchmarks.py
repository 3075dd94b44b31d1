"""The benchmarks' framework: it records the measurements and the machine, and does not count work that was not done."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

import pytest

from benchmarks import cluster, picture, servers, targets
from benchmarks.curves import axes
from benchmarks.curves.axes import AXES
from benchmarks.engine import cases, replication, stream_cases
from benchmarks.engine.client import Connection, command
from benchmarks.engine.memory import resident_bytes
from benchmarks.kafka import contenders as kafka
from benchmarks.kafka import jars
from benchmarks.kafka.__main__ import TARGETS as KAFKA
from benchmarks.kafka.__main__ import WITH_START
from benchmarks.kafka.__main__ import main as measure_kafka
from benchmarks.spark import contenders as spark
from benchmarks.spark import driver
from benchmarks.stalls import pings, scenes, table
from benchmarks.stalls.cases import CASES
from tests.servers import Running
from tests.suite.long import long_only
from tests.suite.tools import needed


@pytest.mark.parametrize("case", [cases.xadd(16, 160), cases.xreadgroup(1000, 2000)], ids=lambda case: case.name)
def test_a_case_does_the_work_that_it_counts(engine_process: Running, case: cases.Case) -> None:
    with Connection(engine_process.port) as connection:
        case.prepare(connection)
        with pytest.raises(RuntimeError, match="should"):
            case.check(connection)
        case.work(connection)
        case.check(connection)
        cases.flush(connection)


def test_a_command_that_blocks_the_server_is_seen_by_the_second_client(engine_process: Running) -> None:
    """The second client's PINGs wait while the command blocks the server, and no longer."""
    blocked, _ = pings.measure(engine_process.port, command("DEBUG", "SLEEP", "0.2"))
    # On a busy machine this process may see the last reply late.
    assert 150 <= blocked.p99 <= blocked.worst <= blocked.own + 1000
    assert blocked.own >= 200


def test_stalls_after_the_reply_are_counted_separately(engine_process: Running) -> None:
    """PINGs sent after the reply are not attributed to the command."""
    quick, later = pings.measure(engine_process.port, command("PING"), after=0.05)
    assert later is not None
    assert later.own == quick.own


def test_a_command_that_is_refused_has_no_pause(engine_process: Running) -> None:
    """A refused command raises an error with the server's text instead of giving a figure."""
    with pytest.raises(pings.RefusedError, match="unknown command 'NOTHING'"):
        pings.measure(engine_process.port, command("NOTHING"))


@long_only
@pytest.mark.parametrize("scene", [scene for scene, _ in CASES], ids=lambda scene: scene.name)
def test_the_engine_has_every_command_whose_pause_is_measured(scene: scenes.Scene) -> None:
    """Every scene can be prepared on the engine, and none of its commands is refused, at a thousandth of the sizes."""
    with table.stages(scene, 0.001, "engine", rests=False) as (stage,):
        for case in next(cases for other, cases in CASES if other is scene):
            answered, _ = table.run_case(replace(case, after=0.0, spoils=False), [stage], 1)
            assert len(answered["engine"]) == 1, case.name


def lines_of(root: ElementTree.Element, points: int) -> int:
    """Return the number of lines in the picture that have this many points."""
    paths = [path.get("d") or "" for path in root.iter("{http://www.w3.org/2000/svg}path") if path.get("clip-path")]
    return sum(len(re.findall("[ML]", path)) == points for path in paths)


def test_every_target_of_spark_is_that_of_a_measurement() -> None:
    """Every target of the Spark benchmarks names an existing measurement, so that a renamed measurement is noticed."""
    connection = cast(Connection, None)  # the ways are only listed, so none uses it
    servers = dict.fromkeys(("engine", "redis"), connection)
    ways = {way.name for way in spark.ways(servers, 1000)}
    assert not {name for ours, peer, _ in targets.SPARK for name in (ours, peer)} - ways


def test_every_target_beside_kafka_is_that_of_a_measurement() -> None:
    """Every target of `python -m benchmarks.kafka` names an existing measurement."""
    connection = cast(Connection, None)
    sides = [
        kafka.Kafka("nowhere"),
        *(kafka.Streams(name, connection) for name in ("engine", "redis")),
    ]
    names = {way.name for side in sides for way in side.ways(1000, 100)}
    names |= {name + WITH_START for name in names if name.startswith("stream to stream")}
    assert not {name for ours, (peer, _) in KAFKA.items() for name in (ours, peer)} - names


@long_only
def test_kafka_is_not_measured_without_its_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If Spark's configured repositories are unreachable, the program says so and exits successfully."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers>'
        '<ibiblio name="here" m2compatible="true" root="http://127.0.0.1:1/"/></resolvers></ivysettings>'
    )
    (tmp_path / "spark-defaults.conf").write_text(f"spark.jars.ivySettings {settings}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(jars, "CACHE", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks.kafka"])
    assert measure_kafka() == 0
    assert "Kafka is not measured: kafka_2.13" in capsys.readouterr().out


def test_every_target_of_the_server_is_that_of_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every target of the engine names an existing measurement, including those of redis-benchmark."""
    needed("redis-benchmark")
    for module in (cases, stream_cases):  # only the names are needed, not a million commands
        monkeypatch.setattr(module, "command", lambda *_: b"")
    names = {case.name for case in [*cases.server_cases(), *stream_cases.stream_cases()]}
    assert not set(targets.SERVER) - names


@long_only
@pytest.mark.redis
@pytest.mark.slow
def test_the_figures_are_kept_with_a_description_of_the_machine(redis_process: Running, tmp_path: Path) -> None:
    """The figures are stored with a description of the machine. (The fixture skips the test without a redis-server.)"""
    output = tmp_path / "figures.json"
    words = ["--repetitions", "2", "--only", "pipeline of 100", "--output", str(output)]
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    assert ">=  0.8" in result.stdout
    figures = json.loads(output.read_text())
    assert figures["machine"]["cores"] > 0
    assert set(figures["servers"]) == {"engine", "redis"}
    assert [result["case"] for result in figures["results"]] == ["XADD, pipeline of 100", "XADD, pipeline of 1000"]
    assert all(len(runs) == 2 for result in figures["results"] for runs in result["entries_per_second"].values())


def test_a_synchronisation_is_measured() -> None:
    """A synchronisation that gives the replica all entries has a duration, and a processor time of each server."""
    engine = servers.engine_command()
    # Processor time is counted in hundredths of a second, so the stream must be long.
    found = replication.synchronised(engine, engine, 200_000)
    assert 0 < found.seconds < 20
    assert 0 < found.replica < 20
    assert 0 < found.master < 20


@pytest.mark.parametrize("axis", [axis if axis == "streams" else pytest.param(axis, marks=long_only) for axis in AXES])
def test_curves_are_measured_and_drawn(engine_process: Running, monkeypatch: pytest.MonkeyPatch, axis: str) -> None:
    """Each axis gives figures at each size, and a picture in XML with a labelled line for each server."""
    monkeypatch.setattr(axes, "settled_memory", resident_bytes)
    monkeypatch.setattr(axes, "REPEATS", 3)
    monkeypatch.setattr(axes, "IN_STREAMS", 2_000)
    title, of, *_, measurement = AXES[axis]
    sizes = [1000, 1500, 2000] if axis in ("entries", "pending") else [1, 10, 20]
    with Connection(engine_process.port) as connection:
        found = list(measurement(servers.Server("engine", engine_process.port, engine_process.pid), connection, sizes))
        cases.flush(connection)
    assert [size for size, _ in found] == sizes
    curves = {
        cost: {name: [(size, costs[cost]) for size, costs in found] for name in ("engine", "a & b")}
        for cost in found[0][1]
    }
    assert all(figure >= 0 for lines in curves.values() for line in lines.values() for _, figure in line)
    drawn = ElementTree.fromstring(picture.svg(curves, title, "a machine", of, logarithmic=True))
    assert len(curves) >= 2
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert set(curves) <= set(texts)
    assert texts.count("engine") == texts.count("a & b") == len(curves)
    assert lines_of(drawn, len(sizes)) == 2 * len(curves) >= 4


def test_the_simulated_cluster_agrees_with_the_measured_ones() -> None:
    """The simulation predicts the share of the busiest of several masters from a measurement with one.

    The throughput is limited by executors if their work takes longest, and by a master if its work does.
    """
    runs = {(run.operation, run.cores, run.masters): run for run in cluster.measured()}
    assert {masters for _, _, masters in runs} > {1}
    for (operation, cores, masters), run in runs.items():
        assert cluster.predicted_share(runs[operation, cores, 1], masters) == pytest.approx(run.busiest, rel=0.3)
    by_executors, _, _ = cluster.simulate(4.0, 0.01, executors=10, masters=5, streams=100)
    assert by_executors == pytest.approx(10 * 1e6 / 4.01, rel=0.1)
    by_masters, busiest, _ = cluster.simulate(1.0, 2.0, executors=50, masters=1, streams=1)
    assert (by_masters, busiest) == (pytest.approx(0.5e6, rel=0.05), pytest.approx(1, rel=0.05))
    assert max(cluster.planning(100_000).values()) < 30_000


def test_what_many_streams_cost_the_driver(
    engine_process: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the driver's calls is timed with and without a group, and the streams are deleted afterwards."""
    words = ["--url", engine_process.url, "--streams", "20", "--entries", "2"]
    monkeypatch.setattr(sys, "argv", ["driver", *words])
    driver.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["no group"] * 6 + ["group"] * 6
    with Connection(engine_process.port) as connection:
        assert connection.reply(command("KEYS", f"{driver.PREFIX}*")) == b"*0\r\n"
