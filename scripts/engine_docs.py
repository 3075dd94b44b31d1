"""Write the engine's commands, unsupported commands and directives into the reference.

Run `python scripts/engine_docs.py` after changing any of these. A test fails if a page differs.
"""

from __future__ import annotations

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


def _differs(one: Command) -> bool:
    """Return whether the summary describes a difference of the engine from Redis."""
    return "the engine" in one.summary.lower()


def commands() -> str:
    """Return the commands that differ on the engine, the stream commands by release, and the commands of other groups.

    The subcommands of a container command are listed instead of the container.
    """
    groups: dict[str, list[Command]] = {}
    for _, command in sorted(COMMANDS.items()):
        several = [one for name, one in sorted(command.subcommands.items()) if name != b"HELP"]
        groups.setdefault(command.group, []).extend(several or [command])
    everything = [one for group in groups.values() for one in group]
    own = [one for one in everything if one.name.startswith("ps.")]
    special = [one for one in everything if one not in own and _differs(one)]
    segments = [one for one in everything if one not in own and "segment" in one.complexity]
    names: dict[str, list[str]] = {}
    for text, one in [(one.summary, one) for one in special] + [(f"Costs {one.complexity}", one) for one in segments]:
        names.setdefault(text, []).append(f"`{one.name.upper().replace('|', ' ')}`")
    here = [f"* {' '.join(several)}: {text}\n" for text, several in names.items()]
    releases: dict[str, list[str]] = {}
    for one in groups.pop("stream"):
        if one not in own:
            releases.setdefault(one.since, []).append(f"`{one.name.upper().replace('|', ' ')}`")
    streams = "".join(f"{_item(f'{since}: ' + ' '.join(several))}\n" for since, several in sorted(releases.items()))
    others = textwrap.fill(", ".join(sorted(groups)), 140)
    return (
        f"\n## Different on the engine\n\n{''.join(here)}"
        "\n## As in Redis\n\nStream commands, with all arguments of Redis 8.6, by the first release that has them:\n\n"
        f"{streams}\nRedis 8.6's commands of these groups, except [unsupported ones](#unsupported-commands):\n"
        f"{others}.\n\n"
    )


def _item(text: str) -> str:
    """Return an item of a list, wrapped."""
    return textwrap.fill(f"* {text}", 140, subsequent_indent="  ", break_on_hyphens=False)


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
    """Return the line of a directive: name, default, values. A mark means that CONFIG SET refuses or restricts it."""
    mark = "*" if Mark.FIXED in one.marks else "+" if Mark.PROTECTED in one.marks else ""
    name = f"{one.name}{mark}" + (f" ({one.alias})" if one.alias else "")
    line = f"{name:<45} {one.kind.text(one.default).decode()}"
    values = _values(one.kind)
    return f"{line:<59} {values}".rstrip() + "\n"


def directives() -> str:
    """Return the directives that have an effect, and the names of directives that the engine only stores."""
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
    return _item(f"**{one.subject}**{f' ({names})' if names else ''}: {one.instead}") + "\n"


def left_out() -> str:
    """Return the current list of unsupported commands."""
    return f"\n{''.join(map(_left_out, UNSUPPORTED))}\n"


if __name__ == "__main__":
    LEFT_OUT_PART.write(left_out())
    COMMANDS_PART.write(commands())
    DIRECTIVES_PART.write(directives())
