"""The project's tests.

``streamwire``, ``engine``, ``spark_streams`` and ``pystreams`` mirror the rooms of those packages: what a file tests is
in the room of that name, without Spark. Beside them is what tests the whole through its public interface:

contract       commands, the same cases on the engine's core, on the engine over TCP and on a real Redis
differential   random commands on the engine and on a real Redis (``make fuzz``)
redis_docs     the examples of Redis's documentation
growth         the cost of commands and of scripts' functions is proportional to their arguments (``tests.growth``)
property       random commands against plain lists, and against the log
faults         disks that fail, processes and power that end at any step
crash, chaos   real processes killed at work: the engine (``make crash``), a streaming job and all around it
clients        clients that others wrote: redis-py, redis-cli, redis-benchmark, ioredis, node-redis
programs       celery, BullMQ and others, which use a server as they use Redis (``make test-programs``)
spark, jobs    the connector inside Spark, and the main job
cluster        jobs on a Spark cluster of real processes (``make test-cluster``)
architecture   who imports whom, and what the core never does
packaging      the checkout's set-up, the wheel and the sdist
documentation  the project's own: the site, its tables, the examples of its pages and of the README
benchmarks     the frame of measurements

Three rooms have no subject of their own and serve all others: ``suite`` (order, programs, waiting, Spark's session),
``servers`` (processes to talk to) and ``harness`` (the contract's kinds of servers, and the core in this process).
``conftest`` has the fixtures that all share, and says which tests run on which servers.
"""

from pathlib import Path

import pytest

#: The checkout.
ROOT = Path(__file__).resolve().parent.parent

# The harness's assertions shall show both sides, as those of test files do; this must come before it is imported.
pytest.register_assert_rewrite("tests.harness", "tests.suite.waiting", "tests.documentation.running")
