"""Fixtures for dashboard tests without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from starlette.testclient import TestClient

from pystreams import connect
from pystreams.connect import Wanted
from pystreams.dashboard import audit_log
from pystreams.dashboard.audit_log import Audit
from pystreams.dashboard.login import Rules
from pystreams.dashboard.reading import Decoders, Masks
from pystreams.dashboard.run import site
from pystreams.dashboard.sampler import Sampler
from spark_streams.config import options
from streamclient.config.address import Address
from tests import servers
from tests.suite.waiting import wait_for

TOKEN = "a-token-for-the-tests"


def address_of(url: str) -> Address:
    """Return the address for a URL."""
    address = options.server({"url": url})
    assert isinstance(address, Address)
    return address


@dataclass
class Dashboard:
    """A running dashboard with an HTTP client. `sampler` samples the server in the background."""

    web: TestClient
    sampler: Sampler
    csrf: str = ""

    def log_in(self, **given: str) -> Any:
        """Log in, with the token by default, and return the response."""
        answer = self.web.post("/api/login", json=given or {"token": TOKEN})
        if answer.status_code == 200:
            self.csrf = answer.json()["session"]["csrf"]
        return answer

    def get(self, path: str, **given: str | int) -> Any:
        """Return the JSON document of a request that must succeed."""
        answer = self.web.get(f"/api/{path}", params=given)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, path: str, **given: str | int) -> tuple[int, str]:
        """Return the HTTP status and error ID of a rejected request."""
        answer = self.web.get(f"/api/{path}", params=given)
        return answer.status_code, answer.json()["error"]["id"]

    def post(self, action: str, **given: Any) -> Any:
        """Send one request of a change, the preview or the confirmation, and return the response."""
        return self.web.post(f"/api/changes/{action}", json=given, headers={"x-csrf-token": self.csrf})

    def change(self, action: str, **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Preview and confirm a change, and return both documents."""
        plan = self.post(action, **given)
        assert plan.status_code == 200, plan.text
        done = self.post(action, **given, confirm=plan.json()["confirm"])
        assert done.status_code == 200, done.text
        return plan.json(), done.json()

    def wait_for_sample(self) -> int:
        """Wait for a sample that starts after this call, and return its number."""
        number = self.sampler.state.number
        self.sampler.hurry()
        return wait_for(lambda: (now := self.sampler.state.number) > number + 1 and now, "two samples")


@contextmanager
def dashboard_of(
    wanted: Wanted,
    *,
    changes: bool = False,
    open_here: bool = True,
    masks: Sequence[str] = (),
    decodes: Sequence[str] = (),
    state: Path | None = None,
) -> Iterator[Dashboard]:
    """Run a dashboard that has sampled its server once. `state` is the state directory."""
    address = connect.address_of(wanted, "")
    sampler = Sampler(address, interval=0.05)
    audit = None if state is None else Audit(state / audit_log.FILE)
    rules = Rules(address, TOKEN, changes, open_here, masks=Masks(masks), decoders=Decoders(decodes), audit=audit)
    app = site(rules, sampler)
    with TestClient(app, base_url="http://127.0.0.1:8379") as web:
        wait_for(lambda: sampler.state.number, "the first sample")
        yield Dashboard(web, sampler)


Started = Callable[..., Dashboard]


@pytest.fixture
def started(instance: servers.Running, client: redis.Redis) -> Iterator[Started]:
    """A function that starts a dashboard of the server, without logging in. Add data before calling it.

    The fixture fails if the dashboards leave connections open when they end.
    """
    before = _connections(client)
    with ExitStack() as stack:

        def start(url: str = instance.url, *, changes: bool = False, open_here: bool = True) -> Dashboard:
            return stack.enter_context(dashboard_of(Wanted(url), changes=changes, open_here=open_here))

        yield start
    with suppress(redis.ConnectionError):  # some tests stop the server
        wait_for(lambda: _connections(client) <= before, "the end of the dashboards' connections")


def _connections(client: redis.Redis) -> set[str]:
    """Return the client addresses of the server's connections, except the one of the test's client."""
    return {each["addr"] for each in client.client_list() if each["cmd"] != "client|list"}


@pytest.fixture
def dashboard(started: Started) -> Dashboard:
    """A dashboard that allows changes, logged in with the token."""
    found = started(changes=True)
    assert found.log_in().status_code == 200
    return found
