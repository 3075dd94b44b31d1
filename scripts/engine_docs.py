"""Write the engine's command table and its table of directives into the reference.

Run `python scripts/engine_docs.py` after changing one. A test fails where the two differ.
"""

from __future__ import annotations

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


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _command(one: Command) -> str:
    words = f"{one.name.upper().replace('|', ' ')} {one.syntax}".strip()
    since = "the engine" if one.name.startswith("ps.") else one.since
    return f"| `{_cell(words)}` | {_cell(one.complexity)} | {since} | {_cell(one.summary)} |\n"


def commands() -> str:
    """Return today's tables of commands, one for each group; a container's subcommands stand in its place."""
    groups: dict[str, list[Command]] = {}
    for _, command in sorted(COMMANDS.items()):
        several = [one for name, one in sorted(command.subcommands.items()) if name != b"HELP"]
        groups.setdefault(command.group, []).extend(several or [command])
    first = [name for name in ("stream", "generic") if name in groups]
    blocks = []
    for name in [*first, *sorted(groups.keys() - set(first))]:
        rows = "".join(map(_command, groups[name]))
        blocks.append(f"\n## {name.capitalize()}\n\n| command | complexity | since | does |\n|---|---|---|---|\n{rows}")
    return "".join(blocks) + "\n"


def _values(kind: Kind) -> str:
    if isinstance(kind, OnlyAsItIs):
        return " ".join(f"`{kind.text(value).decode()}`" for value in kind.values) + " only"
    if isinstance(kind, YesNo):
        return "`yes` `no`"
    if isinstance(kind, Choice):
        return " ".join(f"`{choice}`" for choice in kind.choices)
    if isinstance(kind, VersionOfFiles):
        return f"{kind.low} to {kind.high}, {kind.valkey}"
    if isinstance(kind, Integer):
        return f"{kind.low} and more" if kind.high in _NO_UPPER_BOUND else f"{kind.low} to {kind.high}"
    return "bytes" if isinstance(kind, Memory) else ""


def _directive(one: Directive) -> str:
    default = one.kind.text(one.default).decode()
    names = f"`{one.name}`" + (f", `{one.alias}`" if one.alias else "")
    change = "no" if Mark.FIXED in one.marks else "protected" if Mark.PROTECTED in one.marks else "yes"
    return f"| {names} | {f'`{default}`' if default else ''} | {_cell(_values(one.kind))} | {change} |\n"


def directives() -> str:
    """Return today's tables of directives: those that the engine acts on, and those that it accepts and keeps."""
    head = "| directive | default | values | CONFIG SET |\n|---|---|---|---|\n"
    acts = [one for one in DIRECTIVES.values() if Mark.ACTS in one.marks]
    kept = [one for one in DIRECTIVES.values() if Mark.ACTS not in one.marks]
    return (
        f"\n## In force\n\n{head}{''.join(map(_directive, acts))}"
        f"\n## Accepted, without effect\n\n{head}{''.join(map(_directive, kept))}\n"
    )


def _left_out(one: Unsupported) -> str:
    names = " ".join(f"`{name.upper().replace('|', ' ')}{'*' if name.endswith('.') else ''}`" for name in one.commands)
    return f"| {one.subject} | {names} | {one.instead} |\n"


def left_out() -> str:
    """Return today's table of what stays out."""
    return f"\n| what | commands | instead |\n|---|---|---|\n{''.join(map(_left_out, UNSUPPORTED))}\n"


if __name__ == "__main__":
    LEFT_OUT_PART.write(left_out())
    COMMANDS_PART.write(commands())
    DIRECTIVES_PART.write(directives())
