"""Access control of the dashboard, early rejection of requests, and security headers."""

from __future__ import annotations

import logging

import pytest
import redis
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from pystreams.commands.verbs import NEEDS
from pystreams.dashboard.login import IDLE_SECONDS, LONGEST_SECONDS, MOST_SESSIONS, Proposed, Sessions
from pystreams.dashboard.run import BODY_BYTES, QUESTIONS, Guard, configured, host_is_known
from tests import servers
from tests.pystreams.conftest import verbs
from tests.pystreams.dashboard.conftest import TOKEN, Dashboard, Started, address_of

_ADDRESS = address_of("redis://127.0.0.1:1")


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_when_idle_after_a_week_and_at_logout() -> None:
    """A session ends when idle, after a week, and at logout, and an unknown session ID is rejected."""
    clock = _Clock()
    sessions = Sessions(clock)
    numbers = [sessions.start(_ADDRESS, "u", whole=True)[0] for _ in range(3)]
    assert sessions.find(numbers[0] + "x") is None
    clock.now = IDLE_SECONDS - 1
    assert sessions.find(numbers[0]) is not None
    clock.now += 2
    assert [sessions.find(number) is not None for number in numbers] == [True, False, False]
    sessions.end(numbers[0])
    assert sessions.find(numbers[0]) is None
    number, _ = sessions.start(_ADDRESS, "u", whole=True)
    for _ in range(LONGEST_SECONDS // IDLE_SECONDS + 1):
        clock.now += IDLE_SECONDS - 1
        alive = sessions.find(number)
    assert alive is None


def test_sessions_and_plans_are_limited() -> None:
    """The oldest sessions and plans are dropped at the limit. A plan confirms only its own change, once, within ten
    minutes.
    """
    clock = _Clock()
    sessions = Sessions(clock)
    first, _ = sessions.start(_ADDRESS, "u", whole=True)
    for _ in range(MOST_SESSIONS):
        _, session = sessions.start(_ADDRESS, "u", whole=True)
    assert sessions.find(first) is None
    number = session.propose(Proposed("seek", {"to": "+1"}, "a plan", 0))
    confirmed = session.confirmed(number, "seek", {"to": "+1"}, 1)
    assert confirmed is not None
    assert confirmed.plan == "a plan"
    assert session.confirmed(number, "seek", {"to": "+2"}, 1) is None
    assert session.confirmed(number, "trim", {"to": "+1"}, 1) is None
    assert session.confirmed(number, "seek", {"to": "+1"}, 601) is None
    for _ in range(50):
        session.propose(Proposed("trim", {}, "another plan", 0))
    assert (session.confirmed(number, "seek", {"to": "+1"}, 1), len(session.plans)) == (None, 20)


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:8379", True),
        ("localhost:8379", True),
        ("[::1]:8379", True),
        ("192.168.1.7", True),
        ("streams.example.com", True),
        ("STREAMS.example.com:8379", True),
        ("evil.example.com:8379", False),
        ("127.0.0.1.evil.example.com", False),
        ("localhost.evil.example.com", False),
        ("", False),
        ("[::1", False),
        ("127.0.0.1:8379.evil.example.com", False),
        ("evil.example.com@127.0.0.1", False),
    ],
)
def test_unknown_host_names_are_rejected(host: str, known: bool) -> None:
    """Requests whose Host is neither an IP address, localhost, nor a configured name are rejected."""
    assert host_is_known(host, {"streams.example.com"}) == known


@pytest.mark.parametrize(
    ("url", "strict"),
    [("https://streams.example.com", True), ("http://streams.example.com", False), ("https://localhost", False)],
)
def test_a_configured_name_has_hsts(url: str, strict: bool) -> None:
    """HTTPS responses enable HSTS for a configured name, but not for localhost, which other programs use too."""
    web = TestClient(Guard(PlainTextResponse("."), ["streams.example.com"]), base_url=url)
    assert ("strict-transport-security" in web.get("/").headers) == strict


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_requests_of_other_sites_and_sizes_are_refused(dashboard: Dashboard) -> None:
    """Requests are rejected by Host, Origin, Sec-Fetch-Site, CSRF token, content type, method, size, number of
    parameters and encoding, even when logged in.
    """
    web, csrf = dashboard.web, {"x-csrf-token": dashboard.csrf}

    def refusal(answer: object) -> tuple[int, str]:
        return answer.status_code, answer.json()["error"]["id"]  # type: ignore[attr-defined]

    assert refusal(web.get("/api/session", headers={"host": "evil.example.com"})) == (421, "UNKNOWN_HOST")
    path = "/api/changes/purge"
    for headers in ({"origin": "http://evil.example.com"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        assert refusal(web.post(path, json={}, headers={**csrf, **headers})) == (403, "OTHER_SITE")
    assert refusal(web.post(path, json={})) == (403, "OTHER_SITE")
    assert refusal(web.post(path, json={}, headers={"x-csrf-token": "guessed"})) == (403, "OTHER_SITE")
    assert refusal(web.post(path, data={"a": "b"}, headers=csrf)) == (415, "NO_JSON")
    assert refusal(web.post(path, content=b"[1]", headers={**csrf, "content-type": "application/json"})) == (
        400,
        "NO_JSON",
    )
    json = {**csrf, "content-type": "application/json"}
    half = rb'{"stream": "\ud800", "user": "\ud800", "password": "\udcff"}'  # half of a surrogate pair
    for path_of_post in (path, "/api/login"):
        assert refusal(web.post(path_of_post, content=half, headers=json)) == (400, "NO_JSON")
    many = "&".join(f"p{number}=1" for number in range(40))
    for query in (many, "stream=%ED%A0%80", "at=%FF&stream=s", "search=%FF"):
        for question in ("stream", "entries", "streams", "pending/entries"):
            assert refusal(web.get(f"/api/{question}?{query}")) == (400, "INVALID_VALUE")
    assert refusal(web.delete("/api/session")) == (405, "NO_SUCH_METHOD")
    large = b'"' + b"x" * BODY_BYTES + b'"'
    assert refusal(web.post(path, content=large, headers=json)) == (413, "TOO_LARGE")
    assert refusal(web.post(path, content=iter([large]), headers=json)) == (413, "TOO_LARGE")


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_every_response_has_security_headers(started: Started) -> None:
    """Every response has a strict content security policy and forbids frames, content sniffing and caching."""
    web = started().web
    for path in ("/", "/static/js/main.js", "/api/session", "/api/overview", "/nowhere"):
        headers = web.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; ")
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert headers["cache-control"] in ("no-store", "no-cache")
        assert "server" not in headers


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_nothing_is_sent_without_a_login(started: Started, client: redis.Redis) -> None:
    """Without a login, and after logout, every request for data or changes is rejected."""
    client.xadd("secret", {"a": 1})
    dashboard = started(changes=True)
    paths = (
        "overview",
        "streams",
        "groups",
        "stream",
        "entries",
        "pending",
        "letters",
        "news",
    )
    for _ in range(2):
        for path in paths:
            assert dashboard.refused(path, stream="secret", group="g") == (401, "NOT_LOGGED_IN")
        assert dashboard.post("purge", stream="secret", all=True).status_code == 401
        assert "secret" not in dashboard.web.get("/").text + dashboard.web.get("/api/session").text
        dashboard.log_in()
        assert dashboard.get("stream", stream="secret")["length"] == 1
        assert dashboard.web.post("/api/logout", json={}).status_code == 403
        assert dashboard.web.post("/api/logout", json={}, headers={"x-csrf-token": dashboard.csrf}).status_code == 200


def test_a_user_of_the_server_is_limited_by_the_acl(
    started: Started, client: redis.Redis, instance: servers.Running, caplog: pytest.LogCaptureFixture
) -> None:
    """A user sees only streams that the ACL allows, forbidden changes are rejected, and no password is logged."""
    caplog.set_level(logging.DEBUG)
    for name in ("mine:1", "mine:2", "yours"):
        client.xadd(name, {"a": 1})
        client.xgroup_create(name, "g", "0")
    client.acl_setuser("reader", enabled=True, passwords=["+hush-hush"], commands=["+@all", "-xgroup"], keys=["mine:*"])
    try:
        dashboard = started(changes=True)
        assert dashboard.log_in(user="reader", password="wrong").json()["error"]["id"] == "LOGIN_REFUSED"
        client.execute_command("ACL", "SETUSER", "reader", "-echo")
        answer = dashboard.log_in(user="reader", password="hush-hush")
        assert (answer.status_code, answer.json()["error"]["id"]) == (403, "NOT_PERMITTED")
        assert "ECHO" in answer.json()["error"]["message"]
        client.execute_command("ACL", "SETUSER", "reader", "+echo")
        answer = dashboard.log_in(user="reader", password="hush-hush")
        assert answer.json()["session"]["user"] == "reader"
        cookie = answer.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict"))
        assert "hush" not in cookie + answer.text
        streams = dashboard.get("streams")
        assert ([row["name"]["text"] for row in streams["rows"]], streams["total"]) == (["mine:1", "mine:2"], 2)
        assert {row["stream"]["text"] for row in dashboard.get("groups")["rows"]} == {"mine:1", "mine:2"}
        dashboard.wait_for_sample()
        found = dashboard.get("overview")
        assert found["totals"] is None
        assert found["curves"]["rate"] == {"at": [], "values": []}
        assert dashboard.refused("stream", stream="yours") == (403, "NOT_PERMITTED")
        assert dashboard.refused("entries", stream="yours") == (403, "NOT_PERMITTED")
        plan = dashboard.post("seek", stream="mine:1", group="g", to="end").json()
        done = dashboard.post("seek", stream="mine:1", group="g", to="end", confirm=plan["confirm"])
        assert (done.status_code, done.json()["error"]["id"]) == (403, "NOT_PERMITTED")
        assert client.xinfo_groups("mine:1")[0]["last-delivered-id"] == b"0-0"
        assert [secret for secret in ("hush", TOKEN) if secret in caplog.text] == []
    finally:
        client.acl_deluser("reader")


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_a_login_without_a_password_is_accepted_on_loopback_only(started: Started, client: redis.Redis) -> None:
    """If the server needs no password, a login without one is accepted on loopback only."""
    client.ping()
    assert started().log_in(user="", password="").status_code == 200
    outside = started(open_here=False)
    for given in ({"user": "", "password": ""}, {"user": "default", "password": "x"}):
        assert outside.log_in(**given).json()["error"]["id"] == "PASSWORD_PROVES_NOTHING"
    assert outside.log_in().status_code == 200


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_wrong_tokens_are_limited_and_the_right_one_works(started: Started) -> None:
    """After eight wrong tokens in a minute, further wrong tokens get 429; the right token is still accepted."""
    dashboard = started()
    assert {dashboard.log_in().status_code for _ in range(9)} == {200}
    found = [dashboard.log_in(token="guess").status_code for _ in range(9)]
    assert found == [403] * 8 + [429]
    assert dashboard.log_in().status_code == 200


def test_guessing_locks_out_only_the_guesser() -> None:
    """Failed logins are limited per user and address, and per address. Other users and addresses are not affected."""
    clock = _Clock()
    sessions = Sessions(clock)
    assert [sessions.may_try("here", "eve") for _ in range(9)] == [True] * 8 + [False]
    assert sessions.may_try("here", "bob")
    assert sessions.may_try("there", "eve")
    tried = [sessions.may_try("here", f"user {number}") for number in range(200)]
    assert sum(tried) == 100 - 8 - 1
    assert sessions.may_try("there", "bob")
    clock.now += 61
    assert sessions.may_try("here", "eve")


def test_successful_logins_are_not_limited() -> None:
    """Successful logins do not count towards the limit of failures."""
    sessions = Sessions(_Clock())
    for _ in range(50):
        assert sessions.may_try("here", "bob")
        sessions.succeeded("here", "bob")


@pytest.mark.parametrize(
    ("proxies", "client"), [((), "127.0.0.1"), (("10.0.0.0/8",), "127.0.0.1"), (("127.0.0.1",), "1.2.3.4")]
)
def test_only_configured_proxies_name_the_client(proxies: tuple[str, ...], client: str) -> None:
    """X-Forwarded-For is used only on connections from a trusted proxy; the client is the last
    untrusted address in it.
    """

    async def app(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        await PlainTextResponse(scope["client"][0])(scope, receive, send)

    config = configured(app, proxies)
    config.load()
    web = TestClient(config.loaded_app, client=("127.0.0.1", 50000))
    assert web.get("/", headers={"x-forwarded-for": "6.6.6.6, 1.2.3.4"}).text == client


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_a_session_ends_when_its_user_is_removed(
    started: Started, client: redis.Redis, instance: servers.Running
) -> None:
    """A session ends when its user has been removed from the server."""
    client.xadd("s", {"a": 1})
    client.acl_setuser("guest", enabled=True, passwords=["+guest-pass"], commands=["+@all"], keys=["*"])
    dashboard = started()
    dashboard.log_in(user="guest", password="guest-pass")
    assert dashboard.get("stream", stream="s")["length"] == 1
    client.acl_deluser("guest")
    assert dashboard.refused("stream", stream="s") == (401, "NOT_LOGGED_IN")
    assert dashboard.web.get("/api/session").json()["session"] is None


def test_the_documented_acl_rules_suffice(started: Started, client: redis.Redis, instance: servers.Running) -> None:
    """The ACL rules named by the command suffice for the sampler and all pages, and allow no changes."""
    client.xadd("s", {"a": 1}, id="1-0")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c", {"s": ">"})
    rules = NEEDS[verbs()["ui"]].split()
    client.execute_command("ACL", "SETUSER", "viewer", "reset", "on", ">view-pass", "~*", *rules)
    try:
        dashboard = started(f"redis://viewer:view-pass@{instance.host}:{instance.port}", changes=True)
        dashboard.wait_for_sample()
        assert dashboard.sampler.state.problem is None
        dashboard.log_in(user="viewer", password="view-pass")
        for path in QUESTIONS:
            dashboard.get(path, stream="s", group="g", id="1-0")
        row = dashboard.get("streams")["rows"][0]
        assert (row["length"], row["bytes"] > 0, row["pending"]) == (1, True, 1)
        plan = dashboard.post("ack", stream="s", group="g", all=True).json()
        refused = dashboard.post("ack", stream="s", group="g", all=True, confirm=plan["confirm"])
        assert (refused.status_code, refused.json()["error"]["id"]) == (403, "NOT_PERMITTED")
    finally:
        client.acl_deluser("viewer")


def test_streams_that_the_dashboard_may_not_read_are_counted(
    started: Started, client: redis.Redis, instance: servers.Running
) -> None:
    """The overview shows the number of streams that the dashboard's user may not read."""
    client.xadd("mine", {"a": 1})
    client.xadd("theirs", {"a": 1})
    rules = NEEDS[verbs()["ui"]].split()
    client.execute_command("ACL", "SETUSER", "viewer", "reset", "on", ">view-pass", "~mine", *rules)
    try:
        dashboard = started(f"redis://viewer:view-pass@{instance.host}:{instance.port}")
        dashboard.log_in()
        dashboard.wait_for_sample()
        totals = dashboard.get("overview")["totals"]
        assert (totals["streams"], totals["unreadable"]) == (1, 1)
    finally:
        client.acl_deluser("viewer")
