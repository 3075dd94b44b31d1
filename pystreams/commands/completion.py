"""Completion for bash, zsh and fish. Names may contain any bytes; unprintable names are omitted.

Bash splits words at each colon, which most stream names and all URLs contain. So the script for bash passes the whole
line. Completions for bash are escaped here, since a stream may be called `a; reboot`. The other shells escape
completions themselves. This module has its own script for fish, because click's script cuts names at a comma.
"""

from __future__ import annotations

import os
import re
from typing import Any, ClassVar

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

_SOURCE_BASH = """\
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
_SOURCE_FISH = """\
function %(complete_func)s
    set -lx COMP_WORDS (commandline -cp)
    set -lx COMP_CWORD (commandline -t)
    for line in (env %(complete_var)s=fish_complete %(prog_name)s)
        set -l found (string split -m 1 "," -- $line)
        switch $found[1]
            case dir
                __fish_complete_directories $found[2]
            case file
                __fish_complete_path $found[2]
            case plain
                printf "%%s\\n" $found[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
_SPECIAL = re.compile(r"([^\w@%+=:,./-])")


class _Printable(ShellComplete):
    """Omits completions with control characters or line breaks."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Return the completions of the last word."""
        return [item for item in super().get_completions(args, incomplete) if str(item.value).isprintable()]


class Zsh(_Printable, ZshComplete):
    """Completion script and protocol for zsh."""


class Fish(_Printable, FishComplete):
    """Completion script and protocol for fish."""

    source_template: ClassVar[str] = _SOURCE_FISH


class Bash(_Printable, BashComplete):
    """Completion script and protocol for bash."""

    source_template: ClassVar[str] = _SOURCE_BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the complete arguments before the cursor, and the unfinished argument (empty after a space)."""
        words = split_arg_string(self._line)
        if not words or self._line[-1:].isspace():
            return words[1:], ""
        return words[1:-1], words[-1]

    @property
    def _line(self) -> str:
        return os.environ.get("COMP_LINE", "")

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return one line of output, without the part of the word up to the last `:` or `=`, which bash keeps."""
        if item.type != "plain":
            return f"{item.type},"
        begun = self.get_completion_args()[1]
        breaks = [at for at, each in enumerate(begun) if each in ":=" and each in os.environ.get("COMP_BREAKS", ":=")]
        start = breaks[-1] + 1 if breaks and item.value.startswith(begun) else 0
        return "plain," + _SPECIAL.sub(r"\\\1", item.value[start:])
