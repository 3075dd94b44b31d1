"""Several servers in one dashboard: separate pages and permissions, and one list of all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis
from starlette.testclient import TestClient

from pystreams.connect import dashboard_settings, profile_names, read_profile
from pystreams.dashboard.login import Rules
from pystreams.dashboard.run import Part, site
from pystreams.dashboard.sampler import Sampler
from streamclient.errors import PystreamsError
from tests import servers
from tests.pystreams.dashboard.conftest import TOKEN, address_of
from tests.suite.long import long_only
from tests.suite.waiting import wait_for


@contextmanager
def _hanging() -> Iterator[str]:
    """Yield the URL of a server that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"


def _part(url: str, name: str, *, changes: bool) -> Part:
    address = address_of(url)
    return Part(Rules(address, TOKEN, changes, True, name), Sampler(address, 0.05))


@contextmanager
def _dashboard(*parts: Part) -> Iterator[TestClient]:
    app = site(parts).app
    with TestClient(app, base_url="http://127.0.0.1:8379") as web:
        wait_for(lambda: parts[0].sampler.state.number, "the first sample")
        yield web


def _change(web: TestClient, path: str, csrf: str) -> int:
    given = {"stream": "s", "ids": ["1-0"]}
    return web.post(f"/api{path}/changes/purge", json=given, headers={"x-csrf-token": csrf}).status_code


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_each_server_has_its_own_pages_and_permissions(instance: servers.Running, client: redis.Redis) -> None:
    """The token logs in to all servers. Each has its own streams and permissions, and an unknown
    server is not found.
    """
    client.xadd("s", {"a": 1})
    with servers.redis() as other, redis.Redis(port=other.port) as data:
        for stream in ("s", "t"):
            data.xadd(stream, {"a": 1})
        with _dashboard(_part(instance.url, "one", changes=True), _part(other.url, "other/1", changes=False)) as web:
            assert web.get("/api/servers").status_code == 401
            first = web.post("/api/login", json={"token": TOKEN}).json()
            assert [(each["name"], each["path"], each["here"]) for each in first["servers"]] == [
                ("one", "", True),
                ("other/1", "/on/other%2F1", False),
            ]
            path = first["servers"][1]["path"]
            assert b"<title>" in web.get(path).content
            second = web.get(f"/api{path}/session").json()
            assert (first["changes"], second["changes"], second["name"]) == (True, False, "other/1")
            rows = web.get("/api/servers").json()["rows"]
            assert [(row["name"], row["changes"], row["user"]) for row in rows] == [
                ("one", True, "token"),
                ("other/1", False, "token"),
            ]
            wait_for(lambda: web.get(f"/api{path}/overview").json()["totals"]["streams"] == 2, "both streams")
            assert web.get("/api/overview").json()["totals"]["streams"] == 1
            assert _change(web, path, second["session"]["csrf"]) == 403
            assert _change(web, "", second["session"]["csrf"]) == 403
            assert _change(web, "", first["session"]["csrf"]) == 200
            assert web.get("/api/on/unknown/session").status_code == 404
            web.post("/api/logout", json={}, headers={"x-csrf-token": first["session"]["csrf"]})
            assert {web.get(f"/api{each}/overview").status_code for each in ("", path)} == {401}


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_a_user_of_one_server_is_not_logged_in_to_others(instance: servers.Running, client: redis.Redis) -> None:
    """A login with a password is valid for its server only and does not reveal the names of others."""
    client.acl_setuser("ada", enabled=True, passwords=["+lovelace"], commands=["+@all"], keys=["*"])
    try:
        with (
            servers.redis() as other,
            _dashboard(_part(instance.url, "one", changes=True), _part(other.url, "two", changes=True)) as web,
        ):
            login = web.post("/api/login", json={"user": "ada", "password": "lovelace"}).json()
            assert [each["name"] for each in login["servers"]] == ["one"]
            assert web.get("/api/overview").status_code == 200
            assert web.get("/api/on/two/overview").status_code == 401
            (row,) = web.get("/api/servers").json()["rows"]
            assert (row["user"], row["totals"]) == ("ada", None)
    finally:
        client.acl_deluser("ada")


@long_only
@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_a_hanging_server_does_not_delay_others(instance: servers.Running, client: redis.Redis) -> None:
    """While all threads of one server wait, requests to other servers and to the list are answered."""
    client.xadd("s", {"a": 1})
    with ExitStack() as stack:
        hanging = stack.enter_context(ExitStack())
        url = hanging.enter_context(_hanging())
        web = stack.enter_context(
            _dashboard(_part(instance.url, "one", changes=False), _part(url, "hangs", changes=False))
        )
        web.post("/api/login", json={"token": TOKEN})
        waiting = [
            threading.Thread(target=web.get, args=("/api/on/hangs/stream",), kwargs={"params": {"stream": "s"}})
            for _ in range(30)  # more requests than threads per server
        ]
        for thread in waiting:
            thread.start()
        for _ in range(3):
            assert web.get("/api/stream", params={"stream": "s"}).status_code == 200
            here, other = web.get("/api/servers").json()["rows"]
            assert (here["problem"], other["totals"]) == (None, None)
        still = [thread for thread in waiting if thread.is_alive()]
        hanging.close()  # resets the connections
        for thread in waiting:
            thread.join()
    assert still == waiting


def test_profiles_configure_the_dashboard(tmp_path: Path) -> None:
    """The `dashboard` table of a profile configures the dashboard, not the connection, and invalid
    entries are errors.
    """
    file = tmp_path / "profiles.toml"
    file.write_text(
        '[a]\nurl = "redis://x"\n[a.dashboard]\nchanges = false\nmask = ["email"]\n[b]\nurl = "redis://y"\n'
    )
    assert read_profile(file, "a") == {"url": "redis://x"}
    assert dashboard_settings(file, "a") == (False, ["email"])
    assert dashboard_settings(file, "b") == (None, [])
    for wrong in ('changes = "no"', 'mask = "email"', "masks = []"):
        file.write_text(f'[a]\nurl = "redis://x"\n[a.dashboard]\n{wrong}\n')
        with pytest.raises(PystreamsError, match="dashboard"):
            dashboard_settings(file, "a")
    assert profile_names(file) == ["a"]
