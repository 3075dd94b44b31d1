"""Write the engine's commands, unsupported commands and directives into the reference.

Run `python scripts/engine_docs.py` after changing any of these. A test fails if a page differs.
"""

from __future__ import annotations

import itertools
import textwrap

import engine.core.dispatch  # noqa: F401 - declares all commands
from engine.core.table.registry import COMMANDS, Command
from engine.core.table.unsupported import UNSUPPORTED, Unsupported
from engine.settings.directives import DIRECTIVES, IGNORED, Directive
from scripts.generated import ROOT, Part

_REFERENCE = ROOT / "docs" / "reference"
COMMANDS_PART = Part(_REFERENCE / "commands.md", r"<!-- commands: .*? -->\n", "<!-- end of commands -->")
LEFT_OUT_PART = Part(_REFERENCE / "commands.md", r"<!-- left out: .*? -->\n", "<!-- end of left out -->")
DIRECTIVES_PART = Part(_REFERENCE / "directives.md", r"<!-- directives: .*? -->\n", "<!-- end of directives -->")


def _differs(command: Command) -> bool:
    """Return whether the summary describes a difference of the engine from Redis."""
    return "the engine" in command.summary.lower()


def _shown(command: Command) -> str:
    return f"`{command.name.upper().replace('|', ' ')}`"


def commands() -> str:
    """Return the commands that differ on the engine, the stream commands, and the groups of other commands.

    The subcommands of a container command are listed instead of the container.
    """
    groups: dict[str, list[Command]] = {}
    for _, command in sorted(COMMANDS.items()):
        several = [command for name, command in sorted(command.subcommands.items()) if name != b"HELP"]
        groups.setdefault(command.group, []).extend(several or [command])
    ours = {command.name for group in groups.values() for command in group if command.name.startswith("ps.")}
    names: dict[str, list[str]] = {}
    for command in itertools.chain(*groups.values()):
        if command.name not in ours and _differs(command):
            names.setdefault(command.summary, []).append(_shown(command))
    here = [f"* {' '.join(several)}: {text}\n" for text, several in names.items()]
    streams = [_shown(command) for command in groups.pop("stream") if command.name not in ours]
    return (
        f"\n## Different on the engine\n\n{''.join(here)}"
        "\n## As in Redis\n\nStream commands, with all arguments of Redis 8.6:\n"
        f"{textwrap.fill(', '.join(streams), 140, break_on_hyphens=False)}\n\n"
        "Redis 8.6's commands of these groups, except [unsupported ones](#unsupported-commands):\n"
        f"{textwrap.fill(', '.join(sorted(groups)), 140)}.\n\n"
    )


def _item(text: str) -> str:
    """Return an item of a list, wrapped."""
    return textwrap.fill(f"* {text}", 140, subsequent_indent="  ", break_on_hyphens=False)


def _directive(directive: Directive) -> str:
    """Return the line of a directive: name, default, values. A mark means that CONFIG SET refuses it."""
    name = directive.name + "*" * directive.fixed + (f" ({directive.alias})" if directive.alias else "")
    line = f"{name:<45} {directive.kind.text(directive.default).decode()}"
    values = directive.kind.values
    return f"{line:<59} {values}".rstrip() + "\n"


def directives() -> str:
    """Return the directives, and the names of directives that the engine ignores."""
    rows = "".join(map(_directive, DIRECTIVES.values()))
    names = textwrap.fill(
        " ".join(sorted(IGNORED - {"cluster-enabled"})), 110, break_long_words=False, break_on_hyphens=False
    )
    return (
        "\n## In force\n\nThe columns are name (alias), default and allowed values. Directives with the default `yes`"
        " or `no` and no allowed values accept only\nthese two. `CONFIG SET` refuses directives with `*`."
        f"\n\n```text\n{rows}```\n"
        "\n## Ignored\n\nThese directives of Redis and Valkey have no effect here. A file or a flag may contain them;"
        " a line in the log names them.\n`cluster-enabled` may only be `no`: one engine is one shard.\n\n"
        f"```text\n{names}\n```\n\n"
    )


_SHOWN = 6  # number of commands that are named for each family; an error names the family of any other


def _left_out(unsupported: Unsupported) -> str:
    shown = unsupported.commands[:_SHOWN]
    names = " ".join(f"`{name.upper().replace('|', ' ')}{'*' if name.endswith('.') else ''}`" for name in shown)
    names += " ..." if len(unsupported.commands) > _SHOWN else ""
    instead = f": {unsupported.instead}" if unsupported.instead else ""
    return _item(f"**{unsupported.family}**{f' ({names})' if names else ''}{instead}") + "\n"


def left_out() -> str:
    """Return the current list of unsupported commands."""
    return f"\n{''.join(map(_left_out, UNSUPPORTED))}\n"


if __name__ == "__main__":
    LEFT_OUT_PART.write(left_out())
    COMMANDS_PART.write(commands())
    DIRECTIVES_PART.write(directives())
