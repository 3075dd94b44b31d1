"""Flags and configuration files of jobs, without Spark."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import cast

import click
import pytest
from aggregate import aggregate
from archive import archive
from ingest import ingest
from join import join
from pyspark.errors import PySparkException
from pyspark.sql.streaming import DataStreamWriter
from replay import replay

from pystreams.errors import Status
from pystreams.jobs.job import Job, job
from pystreams.jobs.run import Run
from spark_streams.config import options
from tests import ROOT

JOBS = [aggregate, archive, ingest, join, replay]


def failure(each: Job, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run a job that fails, and return its exit status and standard error."""
    status = each.main(list(words), standalone_mode=False)
    return status, capsys.readouterr().err


def fails(failure: Exception) -> int:
    """Return the exit status of a job that ends with this failure."""

    @job("failing", examples=())
    def failing(run: Run) -> None:
        raise failure

    found: int = failing.main([], standalone_mode=False)
    return found


@pytest.mark.parametrize("each", JOBS, ids=lambda job: job.name)
def test_every_job_has_examples_and_every_flag_has_help(each: Job) -> None:
    assert each.epilog is not None
    assert f"pystreams jobs run {each.name} " in each.epilog
    assert f"--conf {each.name}.toml" in each.epilog
    assert [flag.name for flag in each.params if isinstance(flag, click.Option) and not flag.help] == []


@pytest.mark.parametrize("file", sorted((ROOT / "conf").glob("*.toml")), ids=lambda file: file.stem)
def test_every_example_in_conf_is_read_by_its_job(file: Path) -> None:
    """Each example in conf/ is accepted by its job, and its commented lines name existing flags."""
    found = aggregate if file.stem == "alerts" else next(each for each in JOBS if each.name == file.stem)
    context = found.make_context(file.stem, ["--conf", str(file)], resilient_parsing=False)
    assert context.params
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines()[2:]]
    flags = {option.removeprefix("--") for parameter in found.params for option in parameter.opts}
    unknown = set(tomllib.loads("\n".join(lines))) - flags - {"options"}
    assert unknown == set()


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    """A flag overrides its value in the file, and `--option` overrides one value of the table `[options]`."""
    seen: list[tuple[int, dict[str, object]]] = []

    @job("seen", examples=())
    @click.option("--limit", type=int, help="Limit.")
    def probe(run: Run, limit: int) -> None:
        seen.append((limit, run.read_options(limit=None, group="g")))

    file = tmp_path / "job.toml"
    file.write_text('url = "redis://file"\nlimit = 5\n[options]\nretryTimeoutMs = 10\nfailOnDataLoss = false\n')
    probe.main(["--conf", str(file)], standalone_mode=False)
    probe.main(["--conf", str(file), "--limit", "7", "--option", "retryTimeoutMs=20"], standalone_mode=False)
    options = {"group": "g", "url": "redis://file", "retryTimeoutMs": "10", "failOnDataLoss": "false"}
    assert seen == [(5, options), (7, {**options, "retryTimeoutMs": "20"})]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"strem = 'a'", "there is no flag 'strem'"),
        (b"stream = ", "Invalid value"),
        (b"stream = '\xff'", "'utf-8' codec can't decode byte 0xff"),
        (b"options = 3", "'options' is not a table"),
    ],
)
def test_an_unusable_file_is_an_error_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, reason: str
) -> None:
    file = tmp_path / "job.toml"
    file.write_bytes(text)
    status, error = failure(aggregate, capsys, "--conf", str(file))
    assert status == Status.USAGE
    assert error.startswith(f"error: [JOB_FILE_MALFORMED] The file {file} cannot be used: {reason}")
    status, error = failure(aggregate, capsys, "--conf", str(tmp_path / "none.toml"))
    assert (status, "[FILE_UNUSABLE]" in error) == (Status.MISSING, True)


def test_missing_settings_are_errors_before_spark_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSTREAMS_URL", raising=False)
    words = ["--sql", "SELECT 1", "--stream", "s", "--to", "t"]
    error = failure(aggregate, capsys, *words)[1]
    assert error.startswith("error: [MISSING_SERVER] The job aggregate has no server")
    assert "[UNKNOWN_OPTION]" in failure(aggregate, capsys, *words, "--option", "tls.caFil=x")[1]
    assert "[INVALID_VALUE] --trigger is 'often'" in failure(aggregate, capsys, *words, "--trigger", "often")[1]


def test_a_query_needs_a_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    """A job with a streaming query and no checkpoint is refused before the query starts."""

    @job("unsafe", examples=())
    def unsafe(run: Run) -> None:
        run.follow(cast(DataStreamWriter, None))

    assert failure(unsafe, capsys)[1].startswith("error: [MISSING_CHECKPOINT] The job unsafe has no checkpoint")


def test_options_are_split_by_use() -> None:
    """Reads, writes and connections get the options that they have; others are unknown."""
    given = {"MAXPARTITIONS": "2", "writeMode": "staged", "timeZone": "UTC", "user": "u"}
    common = {"timeZone": "UTC", "user": "u"}
    assert options.READ.chosen(given) == {"MAXPARTITIONS": "2", **common}
    assert options.WRITE.chosen(given) == {"writeMode": "staged", **common}
    assert options.CONNECT.chosen(given) == {"user": "u"}


def test_an_error_within_the_query_plan_is_not_shown() -> None:
    """The text of an error that occurs only in the query plan of Spark's message is not shown as the error."""
    plan = "\n=== Streaming Query ===\nCASE ... raise_error(format_string([ARCHIVE_NOT_TEXT] The entry %s ...))"
    with pytest.raises(PySparkException, match="Query terminated with exception: full"):
        fails(PySparkException("[STREAM_FAILED] Query terminated with exception: full" + plan))


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
def test_an_error_of_the_connector_has_the_exit_status_of_its_kind(
    condition: str, status: Status, capsys: pytest.CaptureFixture[str]
) -> None:
    """A connector error in a message of Spark is shown as one line, and has the exit status of its condition."""
    text = (
        f"[STREAM_FAILED] Failed: Traceback:\n  raise\nError: [{condition}] There is something. SQLSTATE: P0001\nat x"
    )
    assert fails(PySparkException(text)) == status
    assert capsys.readouterr().err == f"error: [{condition}] There is something.\n"
