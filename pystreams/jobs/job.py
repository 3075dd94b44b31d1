"""Decorator that makes a function a job: its flags, errors and exit status.

@job("archive", examples=("archive --stream orders --to s3a://lake/orders",))
@reading_flags
def archive(run: Run, reading: Reading, ...): ...

if __name__ == "__main__":
    archive()
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import click
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from pystreams.errors import CONDITIONS, Status, status_of
from pystreams.jobs.flags import options_given, server_flags
from pystreams.jobs.run import Run
from pystreams.values.names import printable
from spark_streams.errors import CONDITIONS as CONNECTORS
from streamclient.errors import PystreamsError
from streamclient.errors import error as client_error
from streamclient.wire_errors import BROKEN

#: A condition of Spark in a message. STREAM_FAILED is excluded, since it only states that a query failed.
_SPARKS = re.compile(r"\[(?!STREAM_FAILED)[A-Z][A-Z_.]+\] ")
#: Line before the description of the query in a message. The description is ignored, because the query's expressions
#: may contain the text of an error that a job could raise.
_PLAN = "=== Streaming Query ==="


class Job(click.Command):
    """A command that shows each `PystreamsError` as one line, including errors that its flags raise.

    Errors in the syntax of flags keep click's form.
    """

    def main(self, *args: Any, **named: Any) -> Any:
        named.setdefault("prog_name", f"pystreams jobs run {self.name}")
        try:
            return super().main(*args, **named)
        except PystreamsError as failure:
            status = _failed(failure)
            if not named.get("standalone_mode", True):
                return status
            sys.exit(status)


def job(name: str, *, examples: Sequence[str]) -> Callable[[Callable[..., None]], Job]:
    """Return a decorator that makes a function a job. The function's first argument is a `Run`.

    `examples`: arguments of `pystreams jobs run`.
    """

    def made(function: Callable[..., None]) -> Job:
        @functools.wraps(function)
        def started(**values: Any) -> None:
            ctx = click.get_current_context()
            options = options_given(ctx, values.pop("options"))
            run = Run(
                name,
                url=values.pop("url"),
                options=options,
                checkpoint=values.pop("checkpoint", None),
                trigger=values.pop("trigger", None),
            )
            status = _guarded(run, lambda: function(run, **values))
            if status:
                ctx.exit(status)

        command = click.command(
            name, cls=Job, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
        )(server_flags(started))
        last = ("--url", "--option", "--conf")
        command.params.sort(key=lambda each: each.opts[0] in last)
        lines = "\n".join(
            f"  {line}" if before.endswith("\\") else f"  pystreams jobs run {line}"
            for before, line in pairwise(["", *examples])
        )
        command.epilog = f"\b\nExamples:\n{lines}\n\n\bExit status: " + ", ".join(
            f"{status.value} {status.name.lower().replace('_', ' ')}" for status in Status
        )
        return command

    return made


def _guarded(run: Run, work: Callable[[], None]) -> int:
    """Do the work and return the exit status."""
    try:
        with run.stop.signals():
            work()
    except PystreamsError as failure:
        return _failed(failure)
    except BROKEN as cause:
        return _failed(client_error("CONNECTION_BROKEN", reason=str(cause).rstrip(".")))
    except Py4JJavaError as failure:
        return _of_spark(str(failure.java_exception.toString()), _causes(failure.java_exception))
    except PySparkException as failure:
        return _of_spark(str(failure), _causes(getattr(failure, "_origin", None)))
    except Py4JError as failure:
        if not run.stop.requested.is_set():
            return _of_spark(str(failure))
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    finally:
        run.close()
    return Status.DONE


def _failed(failure: PystreamsError) -> int:
    keep = "\n"
    click.echo(f"error: {printable(str(failure), keep)}", err=True)
    return status_of(failure)


def _causes(thrown: Any) -> list[str]:
    """Return the messages of a failure's causes in the JVM, the root cause last."""
    found = []
    while thrown is not None and (thrown := thrown.getCause()) is not None:
        found.append(str(thrown.getMessage() or thrown.getClass().getSimpleName()))
    return found


def _of_spark(text: str, causes: Sequence[str] = ()) -> int:
    """Show a failure in Spark, and return the exit status.

    If a message contains an error of the connector or of a job, shows only this error. Otherwise shows Spark's message
    and its cause.
    """
    known = {**CONNECTORS, **CONDITIONS}
    text = text.partition(_PLAN)[0]
    for found in re.finditer(r"\[([A-Z][A-Z_]+)\] (?=([^\n]*))", "\n".join((text, *causes))):
        if found[1] in known:
            return _failed(known[found[1]].error(found[0] + found[2], found[1]))
    shown = _line(text)
    click.echo(f"error: {printable(shown)}".rstrip(), err=True)
    if causes and (began := _line(causes[-1])) not in text:
        click.echo(f"cause: {printable(began)}".rstrip(), err=True)
    return Status.FAILED


def _line(text: str) -> str:
    """Return the first line with a condition of Spark, from the condition on; without a condition, the first line.

    If that line introduces a Python traceback, return the next condition, or the last line of the traceback.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    conditions = [line[at.start() :] for line in lines for at in [_SPARKS.search(line)] if at is not None]
    if conditions and conditions[0].endswith("Traceback (most recent call last):"):
        ends = [line for line in lines[1:] if not line[0].isspace()]
        return conditions[1] if len(conditions) > 1 else ends[-1] if ends else conditions[0]
    return conditions[0] if conditions else lines[0] if lines else text
