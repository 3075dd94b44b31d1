"""Counted imports: the count equals the number of added rows."""

from __future__ import annotations

from contextlib import closing

import pytest
import redis

from pystreams.connect import Wanted, connect
from pystreams.streams.transfer import Counted
from streamclient.errors import PystreamsError
from tests import servers


def test_rows_refused_within_the_transaction_do_not_count(instance: servers.Running, client: redis.Redis) -> None:
    """If the key changes its type, the refused rows are not counted, and a resumed import starts with them."""
    with closing(connect(Wanted(instance.url), "")) as connection:
        counted = Counted(connection, b"s", b"name")
        counted.add([[b"n", b"1"], [b"n", b"2"]])
        client.set("s", "text")
        with pytest.raises(PystreamsError, match="NOT_A_STREAM"):
            counted.add([[b"n", b"3"]])
        assert (counted.done, Counted(connection, b"s", b"name").done) == (2, 2)
