"""`pystreams jobs`: the list of jobs, the paths of their scripts, and running them with spark-submit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pystreams.commands.root import cli
from pystreams.errors import Status
from tests import ROOT

NAMES = ["aggregate", "archive", "flight_delays", "ingest", "join", "replay"]


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["jobs", *words])


def test_ls_lists_every_job_with_its_description() -> None:
    lines = run("ls").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == NAMES
    assert "Streams to Parquet files by day" in lines[2]


def test_path_prints_the_script_and_its_example() -> None:
    assert run("path", "archive").stdout.strip() == str(ROOT / "jobs" / "archive.py")
    assert run("path", "archive", "--conf").stdout.strip() == str(ROOT / "conf" / "archive.toml")
    missing = run("path", "nothing")
    assert (missing.exit_code, "[NO_SUCH_JOB]" in missing.stderr) == (Status.MISSING, True)
    assert run("run", "nothing").exit_code == Status.MISSING


def submitted(directory: Path, *words: str, **environment: str) -> list[str]:
    """Return what `jobs run` passes to spark-submit: arguments, Python and login. It returns spark-submit's status."""
    submit = directory / "bin" / "spark-submit"
    submit.parent.mkdir(exist_ok=True)
    submit.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" "$PYSPARK_PYTHON" "$PYSTREAMS_USER:$PYSTREAMS_PASSWORD"\nexit 7\n'
    )
    submit.chmod(0o755)
    code = "import sys; sys.executable = '/nowhere/python'; from pystreams.commands.root import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={"PATH": str(submit.parent), "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(directory), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 7, result.stderr
    return result.stdout.splitlines()


def test_run_passes_the_job_its_arguments(tmp_path: Path) -> None:
    """`run` passes all arguments after the job's name to the job, and quiets Spark's log unless configured."""
    words = ["archive", "--json", "--url", "redis://u"]
    quiet, level = ["--conf", "spark.log.level=WARN"], "--conf spark.log.level=INFO"
    for given, configured, first in (
        ("--master 'local[2]'", {}, [*quiet, "--master", "local[2]"]),
        (level, {}, level.split()),
        ("", {"SPARK_CONF_DIR": "/conf"}, []),
    ):
        found = submitted(tmp_path, "jobs", "run", "--submit", given, *words, **configured)
        assert found == [*first, str(ROOT / "jobs" / "archive.py"), *words[1:], "/nowhere/python", ":"]


def test_run_passes_the_job_the_server_of_the_command(tmp_path: Path) -> None:
    """`--url`, `--profile` and `--option` before the verb apply to the job. The password of a profile is not an
    argument.
    """
    (tmp_path / "pystreams").mkdir()
    profile = '[far]\nurl = "rediss://far"\nuser = "u"\npassword = "p"\n'
    (tmp_path / "pystreams" / "profiles.toml").write_text(profile)
    url = ("--url", "redis://a", "--option", "tls.verify=none")
    for words, expected, login in ((url, [*url], ":"), (("--profile", "far"), ["--url", "rediss://far"], "u:p")):
        found = submitted(tmp_path, *words, "jobs", "run", "archive", "--url", "redis://b")
        script = found.index(str(ROOT / "jobs" / "archive.py"))
        assert found[script + 1 :] == [*expected, "--url", "redis://b", "/nowhere/python", login]


def test_a_jobs_help_needs_no_spark(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pystreams", "jobs", "run", "archive", "--help"],
        env={"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, "pystreams jobs run archive --stream" in result.stdout) == (0, True), result.stderr


def test_without_spark_submit_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    result = run("run", "archive")
    assert (result.exit_code, "[NO_SPARK_SUBMIT]" in result.stderr) == (Status.MISSING, True)
