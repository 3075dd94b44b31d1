"""Write what is generated from the connector's options: docs/reference/options.md and `spark_streams.Options`.

Run `python scripts/option_docs.py` after changing an option. A test fails if the page or the class differs.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from scripts.generated import ROOT, Part, anchor
from spark_streams.config.options import SECTIONS
from streamclient.config.option import Option, options_of, shown_duration

PART = Part(ROOT / "docs" / "reference" / "options.md", r"<!-- options: .*? -->\n", "<!-- end of options -->")

CLASS_PART = Part(ROOT / "spark_streams" / "__init__.py", r"# options: written by [^\n]*\n", "# end of options")


def paragraph(option: Option) -> str:
    """Return an option's names, default in parentheses, and meaning."""
    default = option.shown_default()
    if default and not option.default_text:
        default = f"`{default}`"
    names = ", ".join(f"**`{name}`**" for name in option.names)
    return f"\n{anchor(option.name)}{names}{f' ({default})' if default else ''} {option.meaning}\n"


def section_text(section: type[Any]) -> str:
    """Return a section's heading and options."""
    heading = (section.__doc__ or "").partition("\n")[0].removesuffix(".")
    return f"\n## {heading}\n{''.join(map(paragraph, options_of(section).values()))}"


def written() -> str:
    """Return the current sections."""
    return "".join(map(section_text, SECTIONS)) + "\n"


def options_class() -> str:
    """Return the current class `Options`."""
    lines = ["class Options(TypedDict, total=False):"]
    lines += ['    """Options of a read or a write, which docs/reference/options.md describes."""', ""]
    for section in SECTIONS:
        hints = get_type_hints(section)
        for field, option in options_of(section).items():
            lines.append(f"    {option.name.replace('.', '_')}: {_annotation(hints[field], option)}")
    return "\n".join(lines) + "\n"


def _annotation(kind: Any, option: Option) -> str:
    """Return the annotation of an option's argument, for an option whose field has this type."""
    if option.name.endswith("Timestamp"):
        return "str | int | datetime | Mapping[str, str | int]"
    if option.name.endswith("Offsets"):
        return "str | Mapping[str, str]"
    if option.kind.show is shown_duration:
        return "int | str | timedelta"
    given = [each for each in get_args(kind) if each is not NoneType] if get_origin(kind) in _UNIONS else [kind]
    (single,) = given
    if get_origin(single) is Literal:
        words = ", ".join(f'"{word}"' for word in get_args(single))
        return f"Literal[{words}]"
    if get_origin(single) is tuple:
        return "str | Sequence[str]"
    return {bool: "bool", int: "int | str"}.get(single, "str")


_UNIONS = (UnionType, Union)


if __name__ == "__main__":
    PART.write(written())
    CLASS_PART.write(options_class())
