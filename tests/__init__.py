"""The project's tests.

``streamwire``, ``engine``, ``spark_streams`` and ``pystreams`` mirror those packages: the tests of a file
are in the folder of the same name, without Spark. The other folders test the whole through its public interface:

contract       commands, the same cases on the engine's core, on the engine over TCP and on a real Redis
differential   random commands on the engine and on a real Redis (``make fuzz``)
growth         the cost of commands is proportional to their arguments
property       random commands against plain lists, and against the log
faults         failing disks, crashes and power failures at any step
crash, chaos   real processes killed at work: the engine; a streaming job and all around it (``python -m tests.chaos``)
clients        clients of other projects: redis-py, redis-cli, redis-benchmark, ioredis, node-redis
programs       FastStream, Watermill and others, used as with Redis (``make test-programs``)
spark, jobs    the connector inside Spark, and the main job
cluster        jobs on a Spark cluster of real processes (tests/cluster/__init__.py says how)
architecture   allowed imports, and a core without I/O
packaging      the set-up of a checkout, the wheel and the sdist
golden         what releases have stored, read by today's code
documentation  the project's own: the site, its tables, the examples of its pages and of the README
benchmarks     the framework of the measurements

Three folders have no subject of their own and serve all others: ``suite`` (order, programs, waiting, Spark's session),
``servers`` (server processes) and ``harness`` (the kinds of servers for contract tests, and the core in this process).
``conftest`` has the shared fixtures, and selects which tests run on which servers.
"""

from pathlib import Path

import pytest

#: The checkout.
ROOT = Path(__file__).resolve().parent.parent

# The harness's assertions shall show both sides, as those of test files do; this must come before it is imported.
pytest.register_assert_rewrite("tests.harness", "tests.suite.waiting", "tests.documentation.running")
