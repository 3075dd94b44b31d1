"""`jobs ls, run, path`: the scripts of `jobs/` in a checkout or the wheel.

This module imports neither scripts nor Spark.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from pystreams.commands.verbs import Run, verb, verb_group, wanted_of
from pystreams.connect import Wanted, profiles_file, settings
from pystreams.errors import fail, status_of
from pystreams.measures import TEXT, Measure, View
from pystreams.output import Output
from streamclient.config.connect import PASSWORD, USER
from streamclient.errors import PystreamsError

_PACKAGE = Path(__file__).parents[1]
_SECRETS = {"user": USER, "password": PASSWORD}  # secrets of a profile, which must not become arguments


def _directory(kind: str, beside: str) -> Path:
    """Return the directory of the jobs' scripts or examples: in a wheel inside the package, in a checkout next to it.

    `kind`: name of the directory in a wheel, "scripts" or "conf". `beside`: name of the directory in a checkout.
    """
    inside = _PACKAGE / "jobs" / kind
    return inside if inside.is_dir() else _PACKAGE.parent / beside


def scripts() -> dict[str, Path]:
    """Return the paths of the jobs' scripts, by the name of the job."""
    return {path.stem: path for path in sorted(_directory("scripts", "jobs").glob("*.py"))}


def _script(name: str) -> Path:
    found = scripts()
    if name not in found:
        fail("NO_SUCH_JOB", job=name, known=", ".join(found))
    return found[name]


def _summary(script: Path) -> str:
    return (ast.get_docstring(ast.parse(script.read_text())) or "").split("\n", 1)[0]


_JOBS: View[Path] = (
    Measure("job", lambda row: row.stem, TEXT, "name"),
    Measure("summary", _summary, TEXT, title="WHAT IT DOES"),
)
_PATH: View[Path] = (Measure("path", str, TEXT),)


@verb("ls", examples=("pystreams jobs ls", "pystreams jobs ls --json"))
def ls(run: Run) -> None:
    """List the jobs that come with pystreams."""
    run.show("jobs", _JOBS, [*scripts().values()], more=_PATH)


@verb("path", examples=("pystreams jobs path archive", 'cp "$(pystreams jobs path archive --conf)" archive.toml'))
@click.argument("name")
@click.option("--conf", "example", is_flag=True, help="Show the path of the job's example --conf file.")
def path(run: Run, name: str, example: bool) -> None:
    """Show the path of a job's script, for copying it or for spark-submit."""
    script = _script(name)
    if example:
        script = _directory("conf", "conf") / f"{name}.toml"
        if not script.exists():
            fail("FILE_UNUSABLE", file=script, reason="the job has no example")
    run.done(str(script), {"name": name, "path": str(script)})


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
    epilog="\b\nExamples:\n"
    "  pystreams jobs run archive --help\n"
    "  pystreams jobs run archive --stream orders --to archive/orders --url redis://localhost:6379\n"
    "  pystreams jobs run --submit '--master yarn --packages org.apache.hadoop:hadoop-aws:3.4.1' archive --conf a.toml",
)
@click.option(
    "--submit", default="", metavar="WORDS", help="Additional arguments for spark-submit, quoted as one argument."
)
@click.option("-h", "--help", "helps", is_flag=True, help="Show this message and exit.")
@click.argument("name", required=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(ctx: click.Context, submit: str, helps: bool, name: str | None, words: tuple[str, ...]) -> None:
    """Run a job with spark-submit. Arguments after the job's name are passed to the job.

    The job uses the server that is named before 'jobs' (--url, --profile, --option), unless the job's own flags name
    another server.
    """
    if helps or name is None:
        click.echo(ctx.get_help())
        ctx.exit(0 if helps else 2)
    try:
        script = str(_script(name))
        server, secrets = _server(wanted_of(ctx))
        if {"-h", "--help"} & set(words) and importlib.util.find_spec("pyspark") is not None:
            command = [sys.executable, script]  # Python shows the help without starting Spark
        else:
            command = [_spark_submit(), *_quiet(submit), *shlex.split(submit), script]
    except PystreamsError as failure:
        Output().failed(failure)
        ctx.exit(status_of(failure))
    ours = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    sys.stdout.flush()
    # The program replaces this process, so that it receives signals and sets the exit status.
    os.execve(command[0], [*command, *server, *words], {**ours, **os.environ, **secrets})  # noqa: S606 - no shell is wanted


def _server(wanted: Wanted) -> tuple[list[str], dict[str, str]]:
    """Return the job's flags for the server that the command line names, and environment variables for the
    secrets of a profile.
    """
    if wanted == Wanted():
        return [], {}
    if wanted.url is None and wanted.profile is None and not wanted.embedded:
        given = dict(wanted.given)
    else:
        given = settings(wanted, os.environ, profiles_file())
    secrets = {name: given.pop(name) for name in _SECRETS if wanted.profile is not None and name in given}
    url = given.pop("url", None)
    flags = [] if url is None else ["--url", url]
    flags += [word for name, value in given.items() for word in ("--option", f"{name}={value}")]
    return flags, {_SECRETS[name]: value for name, value in secrets.items()}


def _spark_submit() -> str:
    """Return the path of spark-submit: next to this Python, in SPARK_HOME, or on PATH. Raises NO_SPARK_SUBMIT."""
    directories = [Path(sys.executable).parent, *map(Path, os.get_exec_path())]
    if os.environ.get("SPARK_HOME"):
        directories.insert(1, Path(os.environ["SPARK_HOME"]) / "bin")
    found = shutil.which("spark-submit", path=os.pathsep.join(map(str, directories)))
    return found or fail("NO_SPARK_SUBMIT", python=sys.executable)


def _quiet(submit: str) -> list[str]:
    """Return the arguments that set Spark's log level to WARN: the default INFO would hide the job's output.

    Returns an empty list if `submit` sets the level, or if SPARK_CONF_DIR or SPARK_HOME is set: the configuration in
    these directories may set the level.
    """
    configured = {"SPARK_CONF_DIR", "SPARK_HOME"} & os.environ.keys()
    return [] if configured or "spark.log.level" in submit else ["--conf", "spark.log.level=WARN"]


VERBS = (verb_group("jobs", "Run the jobs that come with pystreams, and find their scripts.", ls, run, path),)
