r"""Completion for bash, by the whole line instead of bash's own words: those break at each colon.

Names of streams have colons as a rule, and so has every URL. What is completed is escaped: a stream may be called
`a; reboot`. What is not printable is not offered.
"""

from __future__ import annotations

import os
import re
from typing import Any, ClassVar

from click.shell_completion import BashComplete, CompletionItem, split_arg_string

_SOURCE = """\
%(complete_func)s() {
    local IFS=$'\\n' line so_far="${COMP_LINE:0:$COMP_POINT}"
    COMPREPLY=()
    while read -r line; do
        case $line in
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
            plain,*) COMPREPLY+=("${line#plain,}") ;;
        esac
    done < <(env COMP_LINE="$so_far" COMP_BREAKS="$COMP_WORDBREAKS" %(complete_var)s=bash_complete $1)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_SPECIAL = re.compile(r"([^\w@%+=:,./-])")


class Bash(BashComplete):
    """What bash is given, and what it asks."""

    source_template: ClassVar[str] = _SOURCE

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the last one, and what there is of that."""
        words = split_arg_string(self._line)
        if not words or self._line[-1:].isspace():
            return words[1:], ""
        return words[1:-1], words[-1]

    @property
    def _line(self) -> str:
        return os.environ.get("COMP_LINE", "")

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """A line of the answer. Bash puts it behind the last character at which it breaks words."""
        if item.type != "plain" or not item.value.isprintable():
            return f"{item.type if item.type != 'plain' else 'none'},"
        begun = self.get_completion_args()[1]
        breaks = [at for at, each in enumerate(begun) if each in ":=" and each in os.environ.get("COMP_BREAKS", ":=")]
        kept = breaks[-1] + 1 if breaks and item.value.startswith(begun) else 0
        return "plain," + _SPECIAL.sub(r"\\\1", item.value[kept:])
