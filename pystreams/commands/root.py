"""The command `pystreams` itself and its verbs. Click completes verbs and options in bash, zsh and fish."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import click

from pystreams.commands.verbs import remember, server_options
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


#: The verbs by the module of `pystreams.commands` that defines them, in the order of the help.
_VERBS = {
    "streams": ("ls", "info"),
    "tails": ("tail", "consume"),
    "produce": ("produce",),
    "groups": ("groups",),
    "pending": ("consumers", "pending"),
    "removal": ("trim", "dlq", "rm"),
    "archives": ("export", "import", "copy"),
    "checkpoint": ("checkpoint",),
    "batches": ("batches",),
    "metrics": ("metrics",),
    "jobs": ("jobs",),
    "diagnostics": ("doctor", "serve", "server"),
    "dashboard": ("ui",),
}


class Root(click.Group):
    """The command `pystreams` with all verbs. Errors in the command line are JSON if results in JSON were requested.

    A verb's module is imported when the verb is used, so that a command does not wait for the imports of all others.
    Arguments may come from another program (`xargs`), so control characters in them never reach a terminal.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs, in the order of the help."""
        del ctx
        return [name for names in _VERBS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb; None if there is no such verb."""
        del ctx
        for module, names in _VERBS.items():
            if cmd_name in names:
                verbs: tuple[click.Command, ...] = import_module(f"pystreams.commands.{module}").VERBS
                return verbs[names.index(cmd_name)]
        return None

    def main(self, args: Sequence[str] | None = None, *given: Any, **more: Any) -> Any:
        """Run the command line `args`, by default that of this process.

        Exits if `standalone_mode` is true, which is the default.
        """
        if not more.get("standalone_mode", True):
            return super().main(args, *given, **more)
        try:
            status: Any = super().main(args, *given, **{**more, "standalone_mode": False})
        except click.ClickException as failure:
            words = sys.argv[1:] if args is None else list(args)
            message = failure.format_message()
            if _asks_for_json(words[: words.index("--")] if "--" in words else words):
                Output(Form.JSON).refused(message)
            elif printable(message, "\n") == message:
                failure.show()
            else:
                click.UsageError(printable(message, "\n"), getattr(failure, "ctx", None)).show()
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
