"""Flags and configuration files of jobs, without Spark."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, call

import click
import pytest
import redis
from aggregate import aggregate
from archive import archive
from ingest import ingest
from join import join
from lag import lag
from prometheus_client.parser import text_string_to_metric_families
from redrive import redrive
from replay import replay

from pystreams.connect.target import Wanted
from pystreams.errors import Status
from pystreams.jobs.flags import FROM_FILE, options_given, split
from pystreams.jobs.job import Job, _of_spark
from pystreams.jobs.run import Run
from pystreams.metrics.collector import Chosen, Collector
from pystreams.metrics.exporter import exposition
from spark_streams.errors import PystreamsError
from streamclient.pool import close_all
from tests import ROOT
from tests.servers import Running

JOBS = [aggregate, archive, ingest, join, lag, redrive, replay]


def failure(job: Job, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run a job that fails, and return its exit status and standard error."""
    status = job.main(list(words), standalone_mode=False)
    return status, capsys.readouterr().err


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_every_job_has_examples_and_every_flag_has_help(job: Job) -> None:
    assert job.epilog is not None
    assert f"pystreams jobs run {job.name} " in job.epilog
    assert f"--conf {job.name}.toml" in job.epilog or job.name in ("lag", "redrive")
    assert [each.name for each in job.params if isinstance(each, click.Option) and not each.help] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sql", "SELECT 1", "--slide", "1m"), "Remove --agg, --window, --slide and --by."),
        (("--agg", "count(*) as n", "--slide", "1m", "--output-mode", "update"), "--slide requires --window."),
        (("--agg", "count(*) as n"), "Figures without --window are never final."),
        (("--by", "customer"), "Give the figures to compute"),
        ((), "Give a computation"),
    ],
)
def test_contradictory_flags_of_aggregate_are_rejected(words: tuple[str, ...], message: str) -> None:
    """Contradictory flags of `aggregate` are rejected before Spark starts."""
    with pytest.raises(click.UsageError, match=message):
        aggregate.main(["--stream", "orders", "--to", "console", *words], standalone_mode=False)


@pytest.mark.parametrize("file", sorted((ROOT / "conf").glob("*.toml")), ids=lambda file: file.stem)
def test_every_example_in_conf_is_read_by_its_job(file: Path) -> None:
    """Each example in conf/ is accepted by its job, and its commented lines name existing flags."""
    job = aggregate if file.stem == "alerts" else next(job for job in JOBS if job.name == file.stem)
    context = job.make_context(file.stem, ["--conf", str(file)], resilient_parsing=False)
    assert context.params
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines()[2:]]
    flags = {option.removeprefix("--") for parameter in job.params for option in parameter.opts}
    whole = "\n".join(line for line in lines if "=" in line or line.startswith("["))
    unknown = set(tomllib.loads(whole)) - flags - {"options"}
    assert unknown == set()


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('stream = "a"\nurl = "redis://file"\nlimit = 5\n[options]\nretryTimeoutMs = 10\nuser = "u"\n')
    context = redrive.make_context("redrive", ["--conf", str(file), "--limit", "7", "--option", "RETRYTIMEOUTMS=20"])
    assert (context.params["stream"], context.params["limit"], context.params["url"]) == ("a", 7, "redis://file")
    assert context.meta[FROM_FILE] == {"retryTimeoutMs": "10", "user": "u"}
    assert options_given(context, context.params["options"]) == {"user": "u", "RETRYTIMEOUTMS": "20"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"strem = 'a'", "there is no flag 'strem'; the nearest is 'stream'"),
        (b"stream = ", "it is not TOML"),
        (b"stream = '\xff'", "it is not UTF-8"),
        (b"options = 3", "'options' is not a table"),
        (b"[stream]\na = 'b'", "'stream' is a table; the only table is [options]"),
    ],
)
def test_an_unusable_file_is_an_error_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, reason: str
) -> None:
    file = tmp_path / "job.toml"
    file.write_bytes(text)
    status, error = failure(redrive, capsys, "--conf", str(file))
    assert status == Status.USAGE
    assert error.startswith(f"error: [JOB_FILE_MALFORMED] The file {file} cannot be used: {reason}")
    status, error = failure(redrive, capsys, "--conf", str(tmp_path / "none.toml"))
    assert (status, "[FILE_UNUSABLE]" in error) == (Status.MISSING, True)


def test_missing_settings_are_errors_before_spark_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSTREAMS_URL", raising=False)
    assert failure(lag, capsys)[1].startswith("error: [MISSING_SERVER] The job lag has no server")
    status, error = failure(replay, capsys, "--from", "nowhere", "--url", "redis://127.0.0.1:1")
    assert (status, error[:28]) == (Status.USAGE, "error: [MISSING_CHECKPOINT] ")
    words = ["--url", "redis://127.0.0.1:1", "--option", "retryTimeoutMs=1"]
    assert failure(lag, capsys, *words)[0] == Status.UNREACHABLE
    assert "[UNKNOWN_OPTION]" in failure(lag, capsys, "--option", "tls.caFil=x")[1]
    assert "[INVALID_VALUE] --trigger is 'often'" in failure(lag, capsys, "--trigger", "often")[1]
    assert "[INVALID_VALUE] --to is 'file'" in failure(lag, capsys, "--to", "file")[1]


def test_options_are_split_by_use() -> None:
    given = {"url": "u", "MAXPARTITIONS": "2", "writeMode": "staged", "timeZone": "UTC", "nonsense": "1"}
    assert split(given) == (
        {"url": "u", "timeZone": "UTC", "nonsense": "1"},
        {"MAXPARTITIONS": "2"},
        {"writeMode": "staged"},
    )


LETTER = {"_original_stream": "orders", "_original_id": "1-0", "_original_deliveries": "3"}


def test_redrive_filters_letters_and_a_dry_run_changes_nothing(
    client: redis.Redis, instance: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(7):
        client.xadd("failed", {**LETTER, "_reason": "timeout" if n % 2 else "malformed", "n": n})
    words = ["--stream", "failed", "--url", instance.url, "--reason", "TIME"]
    assert redrive.main([*words, "--dry-run"], standalone_mode=False) is None
    assert "3 letters would go to orders: timeout" in capsys.readouterr().out
    assert (client.xlen("failed"), client.exists("orders")) == (7, 0)
    redrive.main([*words, "--limit", "2"], standalone_mode=False)
    assert [fields[b"n"] for _, fields in client.xrange("orders")] == [b"1", b"3"]
    assert [fields[b"n"] for _, fields in client.xrange("failed")] == [b"0", b"2", b"4", b"5", b"6"]
    client.xadd("failed", {**LETTER, "_reason": "no original"})
    capsys.readouterr()
    redrive.main([*words[:4], "--to", "elsewhere"], standalone_mode=False)
    assert "put back: 5 letters\n" in capsys.readouterr().out
    assert (client.xlen("failed"), client.xlen("elsewhere"), client.xlen("orders")) == (1, 5, 2)
    assert redrive.main(["--stream", "none", "--url", instance.url], standalone_mode=False) == Status.MISSING


@pytest.fixture
def no_connection_is_kept() -> Iterator[None]:
    """Close the connections that the process keeps for jobs, because other tests may count the server's clients."""
    yield
    close_all()


@pytest.mark.usefixtures("no_connection_is_kept")
def test_lag_writes_to_the_console_a_stream_and_a_file(
    client: redis.Redis, instance: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(5):
        client.xadd("orders", {"n": n})
    client.xgroup_create("orders", 'a"b', 0)
    client.xreadgroup('a"b', "c", {"orders": ">"}, count=2)
    assert lag.main(["--url", instance.url], standalone_mode=False) is None
    out = capsys.readouterr().out
    assert 'orders  a"b  lag 3' in out
    assert "pending 2" in out
    lag.main(["--url", instance.url, "--stream", "orders", "--to", "stream:lags"], standalone_mode=False)
    ((_, fields),) = client.xrange("lags")
    assert (fields[b"stream"], fields[b"lag"], fields[b"pending"]) == (b"orders", b"3", b"2")
    file = tmp_path / "lag.prom"
    lag.main(["--url", instance.url, "--to", f"metrics:{file}"], standalone_mode=False)
    assert 'redis_stream_group_lag{db="db0",stream="orders",group="a\\"b"} 3' in file.read_text().splitlines()
    assert [each.name for each in tmp_path.iterdir()] == ["lag.prom"]
    assert lag.main(["--url", instance.url, "--above", "2"], standalone_mode=False) == Status.FOUND
    assert lag.main(["--url", instance.url, "--above", "3"], standalone_mode=False) is None


def test_the_metrics_file_of_lag_equals_the_exporter(client: redis.Redis, instance: Running, tmp_path: Path) -> None:
    """The metrics file of `lag` has the names, labels, types and values of `pystreams metrics`."""
    for n, name in enumerate(("plain", 'a "quoted" \\ name', "lines\nof two", b"\xff")):
        client.xadd(name, {"n": n})
        client.xgroup_create(name, name, 0)
    client.xreadgroup("plain", "c", {"plain": ">"})
    file = tmp_path / "lag.prom"
    lag.main(["--url", instance.url, "--to", f"metrics:{file}"], standalone_mode=False)
    collector = Collector(Wanted(instance.url), Chosen(("*",), 100, consumers=False))
    page, _ = exposition(collector.collect(20))
    collector.close()
    pages = (file.read_text(), page.decode())
    written, exported = ({each.name: each for each in text_string_to_metric_families(text)} for text in pages)
    assert {"redis_stream_group_lag", "pystreams_group_lag_seconds", "pystreams_group_status"} <= written.keys()
    for name, family in written.items():
        expected = exported[name]
        assert (family.type, family.documentation) == (expected.type, expected.documentation)
        figures = [
            {tuple(sorted(each.labels.items())): name.endswith("_seconds") or each.value for each in found.samples}
            for found in (family, expected)
        ]
        assert figures[0] == figures[1]


@pytest.mark.parametrize("pattern", ["orders [old]", "a{b,c}", "what?", "all*", "back\\slash"])
def test_a_directory_named_like_a_pattern_is_rejected(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory whose name is a glob pattern is rejected, because its files would not be found again."""
    server = ["--url", "redis://127.0.0.1:1"]
    for job, words in (
        (archive, ["--stream", "s", "--to", pattern, "--trim-behind"]),
        (replay, ["--from", "archive", "--checkpoint", pattern]),
        (aggregate, ["--stream", "s", "--to", f"parquet:{pattern}", "--checkpoint", "c"]),
    ):
        status, error = failure(job, capsys, *words, *server)
        assert (status, "[FILE_UNUSABLE]" in error, "pattern" in error) == (Status.MISSING, True, True), error


class Notes:
    """Files in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def exists(self, uri: str) -> bool:
        return uri in self.texts

    def read_text(self, uri: str) -> str:
        return self.texts[uri]

    def write_text(self, uri: str, text: str) -> None:
        self.texts[uri] = text


def test_a_checkpoint_belongs_to_one_job_and_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint can be used only by the same job with the same settings. The error shows the original settings."""
    monkeypatch.setattr(Run, "files", Notes())
    first = Run("aggregate", url=None, options={}, checkpoint="c")
    for _ in range(2):
        first.claim_checkpoint({"agg": ("count(*) as n",), "window": "1m", "sql": None})
    with pytest.raises(
        PystreamsError, match=r"belongs to the job aggregate, agg .*, window 1m, not to the job agg.*2m"
    ):
        first.claim_checkpoint({"agg": ("count(*) as n",), "window": "2m"})
    with pytest.raises(PystreamsError, match=r"not to the job join\."):
        Run("join", url=None, options={}, checkpoint="c/").claim_checkpoint()


def test_an_error_within_the_query_plan_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """An error ID that occurs only in the query plan of Spark's message is not shown as the error."""
    plan = "\n=== Streaming Query ===\nCASE ... raise_error(format_string([ARCHIVE_NOT_TEXT] The entry %s ...))"
    _of_spark("[STREAM_FAILED] Query terminated with exception: full" + plan, ["No space left on device"])
    shown = "error: [STREAM_FAILED] Query terminated with exception: full\ncause: No space left on device\n"
    assert capsys.readouterr().err == shown


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (
            "a.b.Error: [PYTHON_VERSION_MISMATCH] 3.13, not 3.11.\nPlease check",
            "[PYTHON_VERSION_MISMATCH] 3.13, not 3.11.",
        ),
        (
            "ModuleNotFoundError: No module named 'spark_streams'",
            "ModuleNotFoundError: No module named 'spark_streams'",
        ),
    ],
)
def test_only_the_end_of_a_traceback_is_shown(end: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """For an error with a Python traceback, only the exception at its end is shown."""
    begin = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call last):"
    )
    _of_spark(f'{begin}\n  File "worker.py", line 62, in run\n    check()\n{end}\n SQLSTATE: 38000')
    assert capsys.readouterr().err == f"error: {shown}\n"


@pytest.mark.parametrize("rate", ["nan", "inf", "0", "-1", "1e-300"])
@pytest.mark.parametrize(("job", "flag"), [(redrive, "--rate"), (replay, "--rate"), (replay, "--speed")], ids=str)
def test_an_invalid_rate_is_rejected(job: Job, flag: str, rate: str) -> None:
    """A rate or speed that is not finite, not positive, or too small is rejected."""
    needed = ["--stream", "s"] if job is redrive else ["--from", "a", "--to", "s", "--checkpoint", "c"]
    with pytest.raises(click.BadParameter, match=rf"'{rate}' is not a number|is not in the range 0\.001<=x<="):
        job.main([*needed, flag, rate, "--url", "redis://localhost:1"], standalone_mode=False)


@pytest.mark.parametrize(
    ("form", "calls"),
    [
        ("iceberg", [call.option("fanout-enabled", "true"), call.option().toTable("lake.db.orders")]),
        ("delta", [call.start("lake.db.orders")]),
    ],
)
def test_an_iceberg_sink_creates_its_table(form: str, calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """An Iceberg sink creates its table if it is missing; other formats write to a directory."""
    writer = MagicMock()
    monkeypatch.setattr(Run, "_writer", lambda *_: writer)
    monkeypatch.setattr(Run, "_follow", lambda *_: None)
    Run("archive", url="redis://localhost:1", options={}).follow_sink(MagicMock(), form, "lake.db.orders", "day")
    prepared = writer.format.return_value.outputMode.return_value.partitionBy.return_value
    assert prepared.mock_calls == calls
    writer.format.assert_called_once_with(form)


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("STREAM_MISSING", Status.MISSING),
        ("GROUP_LOST", Status.MISSING),
        ("SERVER_UNREACHABLE", Status.UNREACHABLE),
        ("NOT_PERMITTED", Status.NOT_PERMITTED),
        ("MISSING_STREAM", Status.USAGE),
        ("ENTRIES_LOST", Status.FAILED),
    ],
)
def test_an_error_of_the_connector_has_the_exit_status_of_its_kind(condition: str, status: Status) -> None:
    """A connector error has the exit status of its condition, also if Spark raises it."""
    assert _of_spark(f"Exception: [{condition}] There is something.") == status
