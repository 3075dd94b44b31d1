"""Decorator that makes a function a job: its flags, a file with their values, errors and exit status.

    @job("archive", examples=("archive --stream orders --to s3a://lake/orders",))
    @reading_flags
    @query_flags
    def archive(run: Run, **reading): ...

    if __name__ == "__main__":
        archive()

`--conf FILE` names a TOML file whose keys are flags without `--`. Its table `[options]` holds the arguments of
`--option`. The command line overrides the file.
"""

from __future__ import annotations

import functools
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pystreams.errors import CONDITIONS, Status, fail, status_of
from pystreams.jobs.run import Run
from pystreams.values import times
from pystreams.values.names import printable
from spark_streams.errors import CONDITIONS as CONNECTORS
from streamclient.errors import BROKEN, PystreamsError
from streamclient.errors import error as client_error

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
#: Key of the click context under which the options of the file are stored.
_OPTIONS = "pystreams.options"
#: A condition in a message of Spark, and the text that follows it.
_CONDITION = re.compile(r"\[([A-Z_]+)\] (?=(.*?)(?: SQLSTATE:|$))", re.MULTILINE)
#: Line in a message of Spark before the query's plan, which may contain the text of an error that did not occur.
_PLAN = "=== Streaming Query ==="


class Trigger(click.ParamType[dict[str, Any]]):
    """`available-now` or a duration between batches, as arguments of Spark's `trigger`."""

    name = "available-now|DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        del param, ctx
        if isinstance(value, dict):
            return value
        if value == "available-now":
            return {"availableNow": True}
        return {"processingTime": f"{times.duration(value, '--trigger')} milliseconds"}


class Duration(click.ParamType[str]):
    """A duration such as 5m, as text for Spark SQL."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        del ctx
        return f"{times.duration(value, param.opts[0] if param is not None else '')} milliseconds"


def combined(*decorators: Decorator) -> Decorator:
    """Combine decorators. The flag of the first decorator is first in the help."""

    def all_of_them(function: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(decorators):
            function = each(function)
        return function

    return all_of_them


#: Flags of a streaming query, which `Run` uses.
query_flags = combined(
    click.option("--checkpoint", metavar="URI", help="Directory of the query's progress; a restart continues from it."),
    click.option(
        "--trigger",
        type=Trigger(),
        default="available-now",
        show_default=True,
        help="End after processing all existing data (available-now), or run a batch at an interval such as 30s.",
    ),
)

#: Flags of a read, which the job passes to `Run.read_stream`.
progress_flags = combined(
    click.option("--group", metavar="NAME", help="Consumer group that shows the job's progress."),
    click.option(
        "--start", metavar="OFFSETS", default="earliest", show_default=True, help="Start position of a new query."
    ),
    click.option(
        "--max-entries", type=click.IntRange(1), metavar="N", help="Maximum number of entries per batch and read."
    ),
)
#: Flags of a job with one read.
reading_flags = combined(
    click.option("--stream", "streams", multiple=True, metavar="NAME", help="Stream to read. Repeatable."),
    click.option(
        "--pattern", metavar="GLOB", help="Alternative to --stream: all matching streams, including new streams."
    ),
    progress_flags,
    click.option(
        "--schema", metavar="DDL", help="Columns to create from the fields, such as 'price double, at timestamp'."
    ),
)
watermark_flag = click.option(
    "--watermark", type=Duration(), default="10m", show_default=True, help="Maximum lateness of an entry."
)


class Job(click.Command):
    """A command that shows an error of a job or of the connector as one line, and ends with its exit status.

    Other errors, such as Spark's own, keep their traceback.
    """

    def main(self, *args: Any, **named: Any) -> Any:
        named.setdefault("prog_name", f"pystreams jobs run {self.name}")
        try:
            return super().main(*args, **named)
        except (PystreamsError, PySparkException, Py4JError, *BROKEN) as failure:
            known = _known(failure)
            if known is None:
                raise
            click.echo(f"error: {printable(str(known), chr(10))}", err=True)
            if named.get("standalone_mode", True):
                sys.exit(status_of(known))
            return status_of(known)


def job(name: str, *, examples: Sequence[str], embedded: bool = False) -> Callable[[Callable[..., None]], Job]:
    """Return a decorator that makes a function a job. The function's first argument is a `Run`.

    `examples`: arguments of `pystreams jobs run`. `embedded`: see `Run`.
    """

    def made(function: Callable[..., None]) -> Job:
        @functools.wraps(function)
        def started(url: str | None, options: tuple[str, ...], **values: Any) -> None:
            ctx = click.get_current_context()
            named = {**ctx.meta.get(_OPTIONS, {}), **dict(map(pair, options))}
            query = {each: values.pop(each) for each in ("checkpoint", "trigger") if each in values}
            try:
                with closing(Run(name, url=url, options=named, embedded=embedded, **query)) as run:
                    function(run, **values)
            except KeyboardInterrupt:
                ctx.exit(Status.INTERRUPTED)

        command = click.command(
            name, cls=Job, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
        )(_server_flags(started))
        command.params.sort(key=lambda each: each.opts[0] in ("--url", "--option", "--conf"))
        lines = "\n".join(
            f"  {line}" if before.endswith("\\") else f"  pystreams jobs run {line}"
            for before, line in pairwise(["", *examples])
        )
        command.epilog = f"\b\nExamples:\n{lines}"
        return command

    return made


def pair(text: str) -> tuple[str, str]:
    """Return name and value of the argument NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"'{text}' is not of the form NAME=VALUE")
    return name, value


def _from_file(ctx: click.Context, _param: click.Parameter, path: str | None) -> None:
    """Use the values of the file as defaults of the flags."""
    if path is None:
        return
    try:
        table = tomllib.loads(Path(path).read_text())
    except OSError as cause:
        fail("FILE_UNUSABLE", file=path, reason=cause.strerror or type(cause).__name__)
    except ValueError as cause:  # neither TOML nor UTF-8
        fail("JOB_FILE_MALFORMED", file=path, reason=str(cause).rstrip("."))
    options = table.pop("options", {})
    flags = {each.opts[0].removeprefix("--"): each for each in ctx.command.params}
    unknown = sorted(table.keys() - flags.keys())
    if unknown or not isinstance(options, Mapping):
        reason = f"there is no flag '{unknown[0]}'" if unknown else "'options' is not a table"
        fail("JOB_FILE_MALFORMED", file=path, reason=reason)
    ctx.meta[_OPTIONS] = {
        name: str(value).lower() if value in (True, False) else str(value) for name, value in options.items()
    }
    ctx.default_map = {
        str(flags[name].name): [value] if flags[name].multiple and not isinstance(value, list) else value
        for name, value in table.items()
    }


_server_flags = combined(
    click.option(
        "--url", metavar="URL", help="URL of the server: redis://host:port, redis+cluster://, redis+sentinel://."
    ),
    click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="Option of the connector for reading or writing, such as tls.caFile=ca.pem.",
    ),
    click.option(
        "--conf",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_from_file,
        help="TOML file with these flags; the table [options] contains the connector's options.",
    ),
)


def _known(failure: Exception) -> PystreamsError | None:
    """Return the error of a job or of the connector that a failure is, or that a message of Spark contains."""
    if isinstance(failure, PystreamsError):
        return failure
    if isinstance(failure, BROKEN):
        return client_error("CONNECTION_BROKEN", reason=str(failure).rstrip("."))
    conditions = {**CONNECTORS, **CONDITIONS}
    for found in _CONDITION.finditer(str(failure).partition(_PLAN)[0]):
        if found[1] in conditions:
            return conditions[found[1]].error(f"[{found[1]}] {found[2]}", found[1])
    return None
