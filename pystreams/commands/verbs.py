"""Common parts of verbs: options for the server and the output, confirmation of changes, errors with exit statuses.

A verb is a function whose first argument is a `Run`. `verb` turns it into a command with --url, --profile, --option and
--json, which may also be given before the verb's name. `changes=True` adds --yes and --dry-run, `adds=True` only
--dry-run. Rows of streams, groups and consumers are tables for people, and documents for programs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from pystreams import measures
from pystreams.connect import Wanted, connect, is_shared, profiles_file, shows_secret
from pystreams.errors import Status, error, fail, status_of
from pystreams.measures import GroupRow, Row, StreamRow, View
from pystreams.output import Column, Form, Output, ReaderGoneError
from pystreams.streams import paged_calls
from pystreams.streams.group_states import Consumer
from pystreams.values import names, times
from streamclient.config.address import Endpoint
from streamclient.connection import BROKEN, Connection
from streamclient.errors import PystreamsError
from streamclient.errors import error as client_error

_PLANS = 5  # number of new plans after outdated ones
_NAMED = 5  # maximum number of streams that a warning names
_SHOWN = 20  # maximum rows of a preview


class Run:
    """One run of a verb: its output, its connection, and whether it may make changes."""

    def __init__(self, wanted: Wanted, needs: str, *, form: Form, yes: bool, dry_run: bool) -> None:
        self.out = Output(form)
        self.yes, self.dry_run = yes, dry_run
        self.wanted = wanted
        self._needs = needs
        self._connection: Connection | None = None
        self._others: list[Connection] = []
        self._now: int | None = None
        self._forbidden: set[bytes] = set()
        self._waits = False  # whether a note has said that the server is slow
        self._named(wanted)

    def _named(self, wanted: Wanted) -> None:
        """Warn of a password on the command line."""
        if shows_secret(wanted):
            self.out.warn(
                "other users can see the password in the process list while this command runs: "
                "set PYSTREAMS_PASSWORD, or use a --profile"
            )

    @property
    def connection(self) -> Connection:
        """The connection to the server, opened on first use."""
        if self._connection is None:
            file = profiles_file()
            if self.wanted.url is None and is_shared(file):
                self.out.warn(f"{file} can be read by others: chmod 600 {file}")
            self._connection = connect(self.wanted, self._needs, on_wait=self._tell_of_wait)
        return self._connection

    def _tell_of_wait(self, server: Endpoint) -> None:
        if not self._waits:
            self._waits = True
            self.out.note(f"waiting for a reply of {server} ...")

    def other(self, wanted: Wanted) -> Connection:
        """Return a connection to a second server."""
        self._named(wanted)
        self._others.append(connect(wanted, self._needs, on_wait=self._tell_of_wait))
        return self._others[-1]

    def use(self, url: str) -> None:
        """Use the server that an argument of the verb names."""
        self._named(Wanted(url))
        self.wanted = replace(self.wanted, url=url, embedded=False)

    @property
    def now(self) -> int:
        """The server's time when this property was first read, in milliseconds since 1970."""
        if self._now is None:
            self._now = paged_calls.now_ms(self.connection)
        return self._now

    def warn_of_forbidden(self, streams: Collection[bytes]) -> None:
        """Warn, once per stream, that results do not include these streams, because the user may not read them."""
        new = sorted({*streams} - self._forbidden)
        if new:
            self._forbidden.update(new)
            shown = ", ".join(map(names.shown, new[:_NAMED]))
            more = f" and {len(new) - _NAMED:,} more" if len(new) > _NAMED else ""
            self.out.warn(f"not included, because this user may not read them: {shown}{more}")

    def may(self, plan: str, document: dict[str, Any] | None = None, records: str = "") -> bool:
        """Return whether the change is confirmed, by --yes or at the terminal. --dry-run only shows the plan.

        `plan`: the change as a clause ("remove 3 entries"). `document`: the change for programs, with `records` as for
        `Output.document`. Raises NOT_CONFIRMED if --yes is missing and the user cannot be asked: standard input is not
        a terminal, or the output is structured.
        """
        if self.dry_run:
            if self.out.structured:
                self.out.document({"dry_run": True, "plan": plan, **(document or {})}, records)
            else:
                self.out.line(f"Would {plan}.")
            return False
        if self.yes:
            return True
        if self.out.structured or not sys.stdin.isatty():
            fail("NOT_CONFIRMED", plan=plan)
        if not click.confirm(f"This will {plan}. Continue?", err=True):
            self.out.note("Nothing was changed.")
            return False
        return True

    def plan_again(self) -> None:
        """Forget what belongs to a plan that is outdated."""
        self._now = None

    def preview(self, view: View[Row], rows: Sequence[Row]) -> None:
        """Show the first rows of a change, unless the output is for programs."""
        if not self.out.structured:
            write_rows(self.out, view, rows[:_SHOWN])
            if len(rows) > _SHOWN:
                self.out.line(f"... and {len(rows) - _SHOWN:,} more")

    def show(
        self, key: str, view: View[Row], rows: Sequence[Row], *, more: View[Row] = (), empty: str = "", **head: Any
    ) -> None:
        """Write rows: a table of the view for people, and for programs a document with `head` and the list `key`.

        `more`: measures that only the document has. `empty`: note to write in place of a table without rows.
        """
        if self.out.structured:
            rows_of = [measures.document((*view, *more), row) for row in rows]
            self.out.document({**head, key: rows_of}, key)
        else:
            write_rows(self.out, view, rows, empty=empty)

    def warn_of(self, problems: Sequence[PystreamsError], count: int) -> None:
        """Warn of the parts of a change that failed. Raises the first problem if all `count` parts failed."""
        if len(problems) == count:
            raise problems[0]
        for problem in problems:
            self.out.warn(str(problem))

    def done(
        self,
        sentence: str,
        document: dict[str, Any],
        records: str = "",
        problems: Sequence[PystreamsError] = (),
    ) -> None:
        """Write the result of a change: a sentence for people, a document for programs. With `problems`, it failed."""
        if self.out.structured:
            self.out.document(document, records)
        else:
            self.out.line(sentence)
        if problems:
            click.get_current_context().exit(Status.FAILED)

    def close(self) -> None:
        """Close the connections."""
        for connection in (self._connection, *self._others):
            if connection is not None:
                connection.close()


class Period(click.ParamType[int]):
    """A duration, in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else times.duration(str(value), self.name)
        except PystreamsError as failure:
            self.fail(str(failure.parameters["expected"]), param, ctx)


PERIOD = Period()


def server_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the server and the output format to the whole command or a verb."""
    for option in (
        click.option("--json", is_flag=True, default=None, help="Same as -o json."),
        click.option(
            "-o",
            "--output",
            type=click.Choice([each.value for each in Form]),
            help="Format of the results; a table by default.",
        ),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="NAME=VALUE",
            help="Connection option of the connector, such as tls.caFile=ca.pem.",
        ),
        click.option(
            "--timeout",
            type=PERIOD,
            help="Maximum time to wait for the server.  [default: 2.5s to connect, 15s for a reply]",
        ),
        click.option(
            "--embedded", is_flag=True, default=None, help="Use the embedded engine of a running Spark driver."
        ),
        click.option("--profile", metavar="NAME", help="Name of a server in ~/.config/pystreams/profiles.toml."),
        click.option(
            "--url", metavar="URL", help="URL of the server: redis://host:port, rediss://, redis+cluster://, ..."
        ),
    ):
        function = option(function)
    return function


_dry_run = click.option("--dry-run", is_flag=True, help="Show the planned changes without making them.")
_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


#: Packages that only some verbs need, with their extras.
_EXTRAS = {
    **dict.fromkeys(("pyarrow", "numpy"), "engine"),
    **dict.fromkeys(("prometheus_client", "starlette", "uvicorn", "authlib", "httpx"), "dashboard"),
    "fsspec": "files",
}

#: ACL rules that each verb needs, as for ACL SETUSER.
NEEDS: dict[click.Command, str] = {}

_LEVEL = "pystreams.level"
_LAST = ("--url", "--profile", "--embedded", "--timeout", "--option", "-o", "--json", "--yes", "--dry-run")


def remember(ctx: click.Context, **given: Any) -> None:
    """Store the options that were given before the verb's name."""
    ctx.meta.setdefault(_LEVEL, {}).update({name: value for name, value in given.items() if value})


def wanted_of(ctx: click.Context) -> Wanted:
    """Return the server that the command line names, by options after or before the verb's name."""
    level: dict[str, Any] = {**ctx.meta.get(_LEVEL, {})}
    for each in (ctx.find_root(), ctx):
        level |= {name: value for name, value in each.params.items() if value}
    given: dict[str, str] = {}
    for text in level.get("options", ()):
        name, equals, value = str(text).partition("=")
        if not equals:
            raise click.BadParameter("write NAME=VALUE", param_hint="--option")
        given[name] = value
    if level.get("embedded") and (level.get("url") or level.get("profile")):
        raise click.UsageError("--embedded excludes --url and --profile")
    timeout = level.get("timeout")
    seconds = None if timeout is None else max(0.1, timeout / 1000)
    return Wanted(level.get("url"), level.get("profile"), given, bool(level.get("embedded")), seconds)


def form_of(form: str | None, json: bool | None, before: Mapping[str, Any]) -> Form:
    """Return the output format, from the verb's options or else the options before its name."""
    if json and form not in (None, Form.JSON):
        raise click.UsageError(f"--json means -o json, but -o {form} was also given.")
    found = form or (Form.JSON if json else None) or before.get("output") or (Form.JSON if before.get("json") else None)
    return Form(found or Form.TABLE)


def verb(
    name: str,
    *,
    needs: str = "",
    options_need: Mapping[str, str] | None = None,
    changes: bool = False,
    adds: bool = False,
    examples: Sequence[str] = (),
) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that turns a function into a verb.

    `needs`: ACL rules that the verb requires. `options_need`: additional rules that an option requires, by
    the name of its parameter. Every verb also needs ECHO, which the client sends when it connects. `examples`: command
    lines for the help.
    """
    needs = f"+echo {needs}".rstrip()

    def made(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def started(**values: Any) -> None:
            ctx = click.get_current_context()
            wanted = wanted_of(ctx)
            form = form_of(values.pop("output"), values.pop("json"), ctx.meta.get(_LEVEL, {}))
            for given in ("url", "profile", "embedded", "timeout", "options"):
                values.pop(given)
            yes, dry_run = bool(values.pop("yes", False)), bool(values.pop("dry_run", False))
            more = [rules for given, rules in (options_need or {}).items() if values[given]]
            run = Run(wanted, " ".join([needs, *more]), form=form, yes=yes, dry_run=dry_run)
            _guarded(ctx, run, lambda: _planned(run, lambda: function(run, **values)))

        decorated = _dry_run(started) if changes or adds else started
        optioned = server_options(_yes(decorated) if changes else decorated)
        command = click.command(name)(optioned)
        # List the verb's own options first in its help.
        command.params.sort(key=lambda each: each.opts[0] in _LAST)
        NEEDS[command] = needs
        if examples:
            command.epilog = examples_of(examples)
        return command

    return made


def examples_of(lines: Sequence[str]) -> str:
    """Return the examples for the end of a verb's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


class InOrder(click.Group):
    """A group whose help lists the verbs in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)


def verb_group(name: str, summary: str, *verbs: click.Command) -> click.Group:
    """Return a verb with subcommands."""
    group = InOrder(name, help=summary)
    for each in verbs:
        group.add_command(each)
    return group


def _planned(run: Run, work: Callable[[], None]) -> None:
    """Run a verb. If its plan is outdated when it is carried out, run it again with a new plan.

    A plan that needs no confirmation is made a few times, and a confirmed plan is shown again.
    """
    for left in range(_PLANS, -1, -1):
        try:
            work()
            return
        except PystreamsError as failure:
            if failure.condition != "PLAN_OUTDATED" or not left:
                raise
            if not run.yes:
                run.out.note("It has changed since then, and nothing was changed. This is the new plan:")
            run.plan_again()


def _guarded(ctx: click.Context, run: Run, work: Callable[[], None]) -> None:
    """Run `work`. On an error, show it and exit with its status."""
    status: int = Status.DONE
    try:
        try:
            work()
            run.out.flush()
        except ModuleNotFoundError as missing:
            package = (missing.name or "").partition(".")[0]
            if package not in _EXTRAS:
                raise
            name, extra = package.replace("_", "-"), _EXTRAS[package]
            raise error("PACKAGE_MISSING", what=ctx.command_path, package=name, extra=extra) from missing
        except BROKEN as cause:
            if cause.filename is not None:
                reason = cause.strerror or type(cause).__name__
                raise error("FILE_UNUSABLE", file=cause.filename, reason=reason) from cause
            raise client_error("CONNECTION_BROKEN", reason=str(cause).rstrip(".")) from cause
    except PystreamsError as failure:
        run.out.failed(failure)
        status = status_of(failure)
    except ReaderGoneError:
        pass  # a closed pipe is not a failure
    except (KeyboardInterrupt, click.Abort):  # click raises Abort if a prompt is interrupted
        status = Status.INTERRUPTED
    finally:
        run.close()
    if status:
        ctx.exit(status)


def exit_with_found(run: Run) -> None:
    """Exit with the status `Status.FOUND`."""
    run.out.flush()
    run.close()
    click.get_current_context().exit(Status.FOUND)


def write_rows(out: Output, view: View[Row], rows: Sequence[Row], *, empty: str = "") -> None:
    """Write the rows under the titles of the view's measures. `empty`: note to write if there are no rows."""
    columns = [Column(each.label, each.form.right, each.form.styles) for each in view]
    out.table(columns, [[each.text(row) for each in view] for row in rows], empty=empty)


def stream_document(view: View[StreamRow], row: StreamRow) -> dict[str, Any]:
    """Return a stream as a document for programs."""
    return {"stream": names.as_json(row.stream.name), **measures.document(view, row)}


def group_document(view: View[GroupRow], row: GroupRow) -> dict[str, Any]:
    """Return a group as a document for programs."""
    named = {"stream": names.as_json(row.group.stream.name), "group": names.as_json(row.group.name)}
    return {**named, **measures.document(view, row)}


def consumer_document(row: Consumer) -> dict[str, Any]:
    """Return a consumer as a document for programs."""
    return {"consumer": names.as_json(row.name), **measures.document(measures.CONSUMER, row)}
