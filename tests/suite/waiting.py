"""Waiting for a condition with a deadline, in place of sleeping."""

from pystreams.testing.servers import DEADLINE, START_DEADLINE
from pystreams.testing.servers import wait_until as wait_for

__all__ = ["DEADLINE", "START_DEADLINE", "wait_for"]
