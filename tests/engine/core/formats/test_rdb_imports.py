"""Writing and reading RDB files must not import modules on the event loop."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[4]
PROGRAM = """
    import sys
    from engine.core.formats.rdb import value_reader, writer
    from engine.core.formats.rdb.reader import Loading
    from engine.core.keyspace import image
    from tests.harness.replay import NOW_US, new_core, state

    core, copy = new_core(), new_core()
    session = core.open_session(NOW_US)
    known = set(sys.modules)
    lines = [f"XADD s {number}-1 sensor {number % 70} temperature {number / 10}" for number in range(1, 3000)]
    lines += ["XGROUP CREATE s g 0", "XREADGROUP GROUP g one COUNT 1500 STREAMS s >"]
    lines += ["XREADGROUP GROUP g two COUNT 700 STREAMS s >"]
    for line in lines:
        core.execute(session, line.encode().split(), NOW_US)
    file = b"".join(writer.write(image.capture(core.databases, NOW_US // 1000), 10))
    loading = Loading(memoryview(file), copy.databases, value_reader.makers(copy.config, copy.streams.new))
    while loading.step():
        pass
    assert state(copy) == state(core)
    print(*sorted(set(sys.modules) - known))
"""


def test_streams_are_written_and_read_without_an_import():
    """Writing and reading streams imports no module.

    Some functions of numpy import parts of numpy when they are first called, which takes ten milliseconds or more.
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []
