"""The engine and each installed real server follow each other, with data of every type.

These tests run with `make test-long`, also with the peers of `scripts/peers`. `make test` tests real pairs in other
ways.
"""

from __future__ import annotations

import pytest

from tests.engine.core.formats import real_files
from tests.engine.shell.replication.pairs_table import seen
from tests.suite import tools
from tests.suite.long import long_only

pytestmark = [pytest.mark.redis, long_only]


@pytest.mark.parametrize("name", real_files.programs() or ["none"])
@pytest.mark.parametrize("leads", [True, False], ids=["engine leads", "engine follows"])
def test_every_type_reaches_the_replica(name, leads):
    """Everything that both servers support is replicated by full and partial synchronisations and FAILOVER."""
    tools.needed("redis-server")
    pair = ("engine", real_files.programs()[name])
    assert seen(*(pair if leads else reversed(pair))) == "yes"
