"""Write the engine's command table and its table of directives into the reference.

Run `python scripts/engine_docs.py` after changing one. A test fails where the two differ.
"""

from __future__ import annotations

import re
import textwrap

import engine.core.dispatch  # noqa: F401 - declares all commands
from engine.core.table.registry import COMMANDS, Command
from engine.core.table.unsupported import UNSUPPORTED, Unsupported
from engine.settings.directives import DIRECTIVES, Directive, Mark
from engine.settings.kinds import I32_MAX, I64_MAX, Choice, Integer, Kind, Memory, OnlyAsItIs, YesNo
from engine.settings.special_kinds import VersionOfFiles
from scripts.generated import ROOT, Part

_REFERENCE = ROOT / "docs" / "reference"
COMMANDS_PART = Part(_REFERENCE / "commands.md", r"<!-- commands: .*? -->\n", "<!-- end of commands -->")
LEFT_OUT_PART = Part(_REFERENCE / "commands.md", r"<!-- left out: .*? -->\n", "<!-- end of left out -->")
DIRECTIVES_PART = Part(_REFERENCE / "directives.md", r"<!-- directives: .*? -->\n", "<!-- end of directives -->")
_NO_UPPER_BOUND = (I32_MAX, (1 << 32) - 1, I64_MAX)


def _words(one: Command) -> str:
    return f"{one.name.upper().replace('|', ' ')} {one.syntax}".strip()


def _line(one: Command) -> str:
    """Return the release that has the command first, and its syntax, in lines that a page shows without scrolling.

    ``key [key ...]`` becomes ``key ...``, so that long commands stay readable.
    """
    words = re.sub(r" ?\| ?", "|", _words(one))
    words = re.sub(r"\b([\w-]+(?: [\w-]+)*) \[\1 \.\.\.\]", r"\1 ...", words)
    words = re.sub(r"\[([\w-]+) \[\1 \.\.\.\]\]", r"[\1 ...]", words)
    return textwrap.fill(
        f"{one.since:<8}{words}", 110, subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False
    )


def _differs(one: Command) -> bool:
    """Whether the summary says that the engine answers in its own way."""
    return "the engine" in one.summary.lower()


def commands() -> str:
    """Return the engine's own commands, those that it answers in its own way, and those of streams.

    The last ones have their arguments. A container's subcommands stand in its place.
    """
    groups: dict[str, list[Command]] = {}
    for _, command in sorted(COMMANDS.items()):
        several = [one for name, one in sorted(command.subcommands.items()) if name != b"HELP"]
        groups.setdefault(command.group, []).extend(several or [command])
    everything = [one for group in groups.values() for one in group]
    own = [one for one in everything if one.name.startswith("ps.")]
    special = [one for one in everything if one not in own and _differs(one)]
    segments = [one for one in everything if one not in own and "segment" in one.complexity]
    own_rows = [f"* `{one.name.upper()}`: {one.complexity.rstrip('.')}\n" for one in own]
    names: dict[str, list[str]] = {}
    for text, one in [(one.summary, one) for one in special] + [(f"Costs {one.complexity}", one) for one in segments]:
        names.setdefault(text, []).append(f"`{one.name.upper().replace('|', ' ')}`")
    here = [f"* {' '.join(several)}: {text}\n" for text, several in names.items()]
    blocks = [
        "\n## The engine's own\n\n[Arguments, effects and replies](extensions.md); the complexity:\n\n",
        *own_rows,
        f"\n## Different on the engine\n\n{''.join(here)}",
        "\n## As in Redis: streams\n\nA line begins with the first release of Redis with the command; `...`: one or"
        " more.\n",
    ]
    lines = "\n".join(_line(one) for one in groups.pop("stream") if one not in own)
    blocks.append(f"\n```text\n{lines}\n```\n")
    blocks.append("\n## As in Redis: all other commands\n\n")
    others = textwrap.fill(", ".join(sorted(groups)), 140)
    blocks.append(f"Redis 8.6's commands of these groups, except [what stays out](#what-stays-out):\n{others}.\n")
    return "".join(blocks) + "\n"


def _values(kind: Kind) -> str:
    if isinstance(kind, OnlyAsItIs):
        return " ".join(f"`{kind.text(value).decode()}`" for value in kind.values) + " only"
    if isinstance(kind, YesNo):
        return ""
    if isinstance(kind, Choice):
        return " ".join(kind.choices)
    if isinstance(kind, VersionOfFiles):
        return f"{kind.low} to {kind.high}, {kind.valkey}"
    if isinstance(kind, Integer):
        return f"≥{kind.low}" if kind.high in _NO_UPPER_BOUND else f"{kind.low}..{kind.high}"
    return "bytes" if isinstance(kind, Memory) else ""


def _directive(one: Directive) -> str:
    """Return a directive with its default and values, in lines of a list; a mark tells that CONFIG SET refuses it."""
    mark = "*" if Mark.FIXED in one.marks else "+" if Mark.PROTECTED in one.marks else ""
    name = f"{one.name}{mark}" + (f" ({one.alias})" if one.alias else "")
    line = f"{name:<45} {one.kind.text(one.default).decode()}"
    values = _values(one.kind)
    return f"{line:<59} {values}".rstrip() + "\n"


def directives() -> str:
    """Return today's directives: those that the engine acts on, and the names of those that it only keeps."""
    acts = [one for one in DIRECTIVES.values() if Mark.ACTS in one.marks]
    kept = [one for one in DIRECTIVES.values() if Mark.ACTS not in one.marks]
    names = " ".join(f"{one.name} ({one.alias})" if one.alias else one.name for one in kept)
    only = [one for one in kept if isinstance(one.kind, OnlyAsItIs)]
    exceptions = "".join(f" `{one.name}` may only be {_values(one.kind).removesuffix(' only')}." for one in only)
    return (
        "\n## In force\n\nThe columns are name (other name), default and allowed values. A default of `yes` or `no`"
        " without values allows only these two. `CONFIG SET`\nrefuses a directive with `*`, and needs"
        f" `enable-protected-configs` for one with `+`.\n\n```text\n{''.join(map(_directive, acts))}```\n"
        f"\n## Accepted, without effect\n\n`CONFIG GET` shows their values.{exceptions}\n\n"
        f"```text\n{textwrap.fill(names, 110, break_long_words=False, break_on_hyphens=False)}\n```\n\n"
    )


def _left_out(one: Unsupported) -> str:
    names = " ".join(f"`{name.upper().replace('|', ' ')}{'*' if name.endswith('.') else ''}`" for name in one.commands)
    text = f"* **{one.subject}**{f' ({names})' if names else ''}: {one.instead}"
    return textwrap.fill(text, 140, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def left_out() -> str:
    """Return today's list of what stays out."""
    return f"\n{''.join(map(_left_out, UNSUPPORTED))}\n"


if __name__ == "__main__":
    LEFT_OUT_PART.write(left_out())
    COMMANDS_PART.write(commands())
    DIRECTIVES_PART.write(directives())
