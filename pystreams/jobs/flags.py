"""Flags shared by jobs, and the file that may contain them (`--conf FILE`).

The file is TOML. Its keys are names of flags without `--`. A flag that may be repeated has a list. The table
`[options]` contains the arguments of `--option`. The command line takes precedence over the file.

    url = "redis://localhost:6379"
    stream = ["orders", "payments"]
    trigger = "30s"

    [options]
    maxPartitions = 4
"""

from __future__ import annotations

import difflib
import functools
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from pystreams.errors import fail
from pystreams.jobs.filesystem import Files
from pystreams.jobs.session import session
from pystreams.values import times
from spark_streams.config.options import SECTIONS
from streamclient.config.option import options_of

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
#: Key of the click context under which the file's options are stored.
FROM_FILE = "pystreams.options"


class Trigger(click.ParamType[dict[str, Any]]):
    """`available-now` or a duration between batches, as arguments of Spark's `trigger`."""

    name = "available-now|DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        del param, ctx
        if isinstance(value, dict):
            return value
        if value == "available-now":
            return {"availableNow": True}
        if not times.is_duration(value):
            expected = "it must be available-now, or a duration such as 30s"
            fail("INVALID_VALUE", name="--trigger", value=value, expected=expected)
        return {"processingTime": f"{times.duration(value, '--trigger')} milliseconds"}


class Rate(click.FloatRange):
    """A rate or a factor: a number from 0.001 to 1e9."""

    def __init__(self) -> None:
        super().__init__(0.001, 1e9)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def server_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of every job: the server, and the connector's options."""
    return combined(
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
    )(function)


def query_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a streaming query: checkpoint and trigger."""
    return combined(
        click.option(
            "--checkpoint", metavar="URI", help="Directory of the query's progress; a restart continues from it."
        ),
        click.option(
            "--trigger",
            type=Trigger(),
            default="available-now",
            show_default=True,
            help="End after processing all existing data (available-now), or run a batch at an interval such as 30s.",
        ),
    )(function)


@dataclass(frozen=True)
class Reading:
    """Selection of streams and how they are read: either `streams` by name, or all streams that match `pattern`."""

    streams: tuple[str, ...]
    pattern: str | None
    group: str | None
    start: str
    max_entries: int | None
    schema: str | None


def reading_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags for the selection of streams, passed to the function as `reading`."""

    @functools.wraps(function)
    def with_reading(*arguments: Any, **given: Any) -> Any:
        reading = Reading(**{each.name: given.pop(each.name) for each in fields(Reading)})
        return function(*arguments, reading=reading, **given)

    return combined(
        click.option("--stream", "streams", multiple=True, metavar="NAME", help="Stream to read; may be repeated."),
        click.option(
            "--pattern", metavar="GLOB", help="Alternative to --stream: all matching streams, including new streams."
        ),
        click.option("--group", metavar="NAME", help="Consumer group that shows the job's progress."),
        click.option(
            "--start", metavar="OFFSETS", default="earliest", show_default=True, help="Start position of a new query."
        ),
        click.option("--max-entries", type=click.IntRange(1), metavar="N", help="Maximum number of entries per batch."),
        click.option(
            "--schema", metavar="DDL", help="Columns to create from the fields, such as 'price double, at timestamp'."
        ),
    )(with_reading)


def interval(text: str, flag: str) -> str:
    """Return a duration as text for Spark SQL, such as `5000 milliseconds`. Raises INVALID_VALUE."""
    return f"{times.duration(text, flag)} milliseconds"


def combined(*decorators: Decorator) -> Decorator:
    """Combine decorators. The flag of the first decorator is first in the help."""

    def all_of_them(function: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(decorators):
            function = each(function)
        return function

    return all_of_them


def _from_file(ctx: click.Context, _param: click.Parameter, path: str | None) -> None:
    """Use the file's values as defaults of the flags."""
    if path is None:
        return
    try:
        table = tomllib.loads(_text(path))
    except OSError as cause:
        fail("FILE_UNUSABLE", file=path, reason=cause.strerror or type(cause).__name__)
    except UnicodeDecodeError:
        fail("JOB_FILE_MALFORMED", file=path, reason="it is not UTF-8, as TOML requires")
    except tomllib.TOMLDecodeError as cause:
        fail("JOB_FILE_MALFORMED", file=path, reason=f"it is not TOML ({cause})")
    flags = {
        option.removeprefix("--"): parameter
        for parameter in ctx.command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    options = table.pop("options", {})
    if not isinstance(options, Mapping):
        fail("JOB_FILE_MALFORMED", file=path, reason="'options' is not a table")
    ctx.meta[FROM_FILE] = {name: _word(value) for name, value in options.items()}
    defaults: dict[str, Any] = {}
    for name, value in table.items():
        parameter = flags.get(name)
        if parameter is None or parameter.name in (None, "options"):
            nearest = difflib.get_close_matches(name, flags, n=1, cutoff=0.0)[0]
            fail("JOB_FILE_MALFORMED", file=path, reason=f"there is no flag '{name}'; the nearest is '{nearest}'")
        if isinstance(value, Mapping):
            fail("JOB_FILE_MALFORMED", file=path, reason=f"'{name}' is a table; the only table is [options]")
        if isinstance(parameter, click.Option) and isinstance(value, list) != parameter.multiple:
            value = [value] if not isinstance(value, list) else _word(value)
        assert parameter.name is not None
        defaults[parameter.name] = [_word(each) for each in value] if isinstance(value, list) else _word(value)
    ctx.default_map = {**(ctx.default_map or {}), **defaults}


def _text(path: str) -> str:
    if "://" in path:
        return Files(session("conf")[0]).read_text(path)
    return Path(path).read_text()


def _word(value: Any) -> str:
    """Return a value of the file as an argument of the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def options_given(ctx: click.Context, words: tuple[str, ...]) -> dict[str, str]:
    """Return the connector's options from the file and from `--option`, which takes precedence."""
    given: dict[str, str] = dict(ctx.meta.get(FROM_FILE, {}))
    for text in words:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter("write NAME=VALUE", param_hint="--option")
        for same in [each for each in given if each.lower() == name.lower()]:
            del given[same]
        given[name] = value
    return given


def split(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the common options, those only for reading, and those only for writing.

    Options of connections, options for both reading and writing, and unknown options are common.
    """
    reading: dict[str, str] = {}
    writing: dict[str, str] = {}
    common: dict[str, str] = {}
    for name, value in given.items():
        owners = {
            each.__name__
            for each in SECTIONS
            for option in options_of(each).values()
            if name.lower() in {spelling.lower() for spelling in option.names}
        }
        if owners & {"RangeOptions", "GroupOptions", "LimitOptions", "ColumnOptions"}:
            reading[name] = value
        elif owners & {"GuaranteeOptions", "TargetOptions", "TrimOptions"}:
            writing[name] = value
        else:
            common[name] = value
    return common, reading, writing
