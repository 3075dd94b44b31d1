"""The command `pystreams` itself, and its verbs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import add_completion_class

from pystreams.commands import batches, completion, dashboard, diagnostics, jobs, metrics, removal, server, streams
from pystreams.commands.entries import archives, cleanup, produce, tails
from pystreams.commands.groups import administration, checkpoint, pending
from pystreams.commands.verbs import InOrder, remember, server_options
from pystreams.errors import Status
from pystreams.output import Form, Output
from pystreams.values.names import printable


def _version() -> str:
    try:
        return version("pystreams-spark")
    except PackageNotFoundError:
        return "unknown"


def _asks_for_json(words: Sequence[str]) -> bool:
    """Return whether a command line that cannot be parsed asks for results in JSON."""
    joined = [f"{word}={value}" for word, value in pairwise(words)]
    asking = {
        "--json",
        *(f"{option}{form}" for option in ("-o", "-o=", "--output=") for form in (Form.JSON, Form.JSONL)),
    }
    return not asking.isdisjoint([*words, *joined])


@contextmanager
def _legible() -> Iterator[None]:
    """Escape control characters in click's messages about a command line."""
    try:
        yield
    except click.ClickException as failure:
        message = failure.format_message()
        if printable(message, "\n") == message:
            raise
        raise click.UsageError(printable(message, "\n"), getattr(failure, "ctx", None)) from failure


class Root(InOrder):
    """The command `pystreams` with all verbs. Errors in the command line are JSON if results in JSON were requested.

    Arguments may come from another program (`xargs`), so control characters in them never reach a terminal.
    """

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """Parse the arguments before the verb's name."""
        with _legible():
            return super().make_context(*given, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the remaining arguments, and run the verb."""
        with _legible():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *given: Any, **more: Any) -> Any:
        """Run the command line `args`, by default that of this process.

        Exits if `standalone_mode` is true, which is the default.
        """
        words = sys.argv[1:] if args is None else list(args)
        options = words[: words.index("--")] if "--" in words else words
        if not more.get("standalone_mode", True) or not _asks_for_json(options):
            return super().main(args, *given, **more)
        try:
            status: Any = super().main(args, *given, **{**more, "standalone_mode": False})
        except click.ClickException as failure:
            Output(Form.JSON).refused(failure.format_message())
            sys.exit(failure.exit_code)
        except click.Abort:
            sys.exit(Status.INTERRUPTED)
        sys.exit(status if isinstance(status, int) else Status.DONE)


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(_version(), prog_name="pystreams")
@server_options
@click.pass_context
def cli(ctx: click.Context, /, **given: Any) -> None:
    """Inspect and manage Redis streams: on the pystreams engine, Redis and Valkey.

    The server is the first of these that is set: --url or --embedded, --profile, PYSTREAMS_URL, PYSTREAMS_PROFILE,
    the default profile in ~/.config/pystreams/profiles.toml, redis://127.0.0.1:6379. Passwords come from a profile or
    from PYSTREAMS_PASSWORD.
    """
    remember(ctx, **given)


for _shell in (completion.Bash, completion.Zsh, completion.Fish):
    add_completion_class(_shell)
for _verb in (
    *streams.VERBS,
    *tails.VERBS,
    *produce.VERBS,
    *administration.VERBS,
    *pending.VERBS,
    *cleanup.VERBS,
    *removal.VERBS,
    *archives.VERBS,
    *checkpoint.VERBS,
    *batches.VERBS,
    *metrics.VERBS,
    *jobs.VERBS,
    *diagnostics.VERBS,
    *server.VERBS,
    *dashboard.VERBS,
):
    cli.add_command(_verb)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, by default that of this process. A closed standard stream (`>&-`) acts as empty."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - open until the process ends
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    cli(arguments, prog_name="pystreams")


def _end(number: int, _: object) -> NoReturn:
    """Exit with cleanup, as after an interrupt. A second signal ends the process immediately."""
    signal.signal(number, signal.SIG_DFL)
    sys.exit(128 + number)
