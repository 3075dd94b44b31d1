"""Refused starts of the engine, one after another in a single process, to save time.

A separate process for each would spend most of its time on imports. ``refused`` runs this module as such a process.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout

from tests import ROOT
from tests.suite.waiting import DEADLINE


def refused(starts: Sequence[Sequence[str]]) -> list[str]:
    """Start the engine with each of these arguments and return its outputs; each start must exit with status 1.

    No start may print anything on stdout.
    """
    command = [sys.executable, "-m", "tests.engine.shell.refused_starts", json.dumps(starts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)
    assert [(status, output) for status, output, _ in ends] == [(1, "")] * len(starts), ends
    return [error for _, _, error in ends]


if __name__ == "__main__":
    from engine.__main__ import main

    found = []
    for arguments in json.loads(sys.argv[1]):
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            status = main(arguments)
        found.append((status, out.getvalue(), errors.getvalue()))
    print(json.dumps(found))  # noqa: T201 - it is what the process is for
