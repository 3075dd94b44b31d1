"""Secrets from files and providers: they can change at any time, and appear nowhere else."""

from __future__ import annotations

import json
import logging
import pickle
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from redis.credentials import CredentialProvider

from spark_streams.config import options
from spark_streams.errors import OptionsError, PystreamsError, ServerError
from streamclient import credentials, pool
from streamclient.config.address import Address
from streamclient.connection import Connection
from tests.spark_streams.driver import Query, Site

NEW, OLD = "n3w-s3cret", "old-s3cret"
PROVIDER = f"{__name__}:provider"


class Vault(CredentialProvider):
    """A provider that returns its current value."""

    def __init__(self) -> None:
        self.password = OLD
        self.asked = 0

    def get_credentials(self) -> tuple[str, str]:
        self.asked += 1
        return "job", self.password


VAULT = Vault()


def provider() -> Vault:
    return VAULT


def nothing() -> None:
    """Return None, which is not a provider."""


def broken() -> None:
    raise LookupError("the vault is closed")


@pytest.fixture
def user(site: Site) -> Iterator[redis.Redis]:
    """A client that has created the user `job` with the old password."""
    allow(site.client, OLD)
    VAULT.password, VAULT.asked = OLD, 0
    yield site.client
    site.client.execute_command("ACL", "DELUSER", "job")


def allow(client: redis.Redis, password: str) -> None:
    client.execute_command("ACL", "SETUSER", "job", "reset", "on", f">{password}", "~*", "+@all")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that lets this number of seconds pass."""
    now, passed = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now() + sum(passed))
    return passed.append


def cut(client: redis.Redis) -> None:
    """Close the connections of the user."""
    for each in client.client_list():
        if each["user"] == "job":
            client.client_kill_filter(_id=each["id"])


def server(site: Site, **given: str) -> Address:
    found = options.server({"url": site.url, "retryTimeoutMs": "2000", **given})
    assert isinstance(found, Address)
    return found


def test_a_password_may_change_in_its_file(site: Site, user: redis.Redis, tmp_path: Path) -> None:
    """A new connection uses the file's current password, without the line end."""
    secret = tmp_path / "secret"
    secret.write_text(OLD + "\n")
    with closing(Connection(server(site, user="job", passwordFile=str(secret)))) as connection:
        assert connection.command("ACL", "WHOAMI") == b"job"
        secret.write_text(NEW)
        allow(user, NEW)
        cut(user)
        assert connection.command("PING") == b"PONG"
        assert connection.command("ACL", "WHOAMI") == b"job"


def test_a_provider_is_asked_again_while_a_connection_is_in_use(
    site: Site, user: redis.Redis, clock: Callable[[float], None]
) -> None:
    """The provider is called for each new connection, and at intervals for an open one, between commands."""
    with closing(Connection(server(site, credentialProvider=PROVIDER))) as connection:
        assert connection.command("ACL", "WHOAMI") == b"job"
        assert connection.command("PING") == b"PONG"
        assert VAULT.asked == 1
        VAULT.password = NEW
        allow(user, NEW)
        cut(user)
        assert connection.command("PING") == b"PONG"
        assert connection.command("ACL", "WHOAMI") == b"job"
        clock(300)
        asked = VAULT.asked
        pending = connection.request([("ECHO", "first")])
        assert connection.command("PING") == b"PONG"
        assert VAULT.asked > asked
        buffer, stop = connection.receive(pending)
        assert bytes(buffer[:stop]) == b"$5\r\nfirst\r\n"
        VAULT.password = "wrong"
        clock(300)
        with pytest.raises(ServerError, match=r"LOGIN_REFUSED.*the credentials of \S+:provider"):
            connection.command("PING")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (broken, "LookupError: the vault is closed"),
        (None, "TimeoutError: no answer"),
        (lambda: None, "TypeError: the result of get_credent"),
        (lambda: ("job", None), "TypeError: the result of get_credent"),
    ],
    ids=["broken", "hangs", "no result", "no password"],
)
def test_a_provider_that_fails_for_a_while_ends_no_connection(
    site: Site,
    user: redis.Redis,
    clock: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    answer: Callable[[], object] | None,
    reason: str,
) -> None:
    """While a provider fails, exceeds its time limit or returns no login, a new connection fails, and an existing one
    continues with the previous credentials and a warning, and calls the provider again.
    """
    ends = threading.Event()
    monkeypatch.setattr(credentials, "_TIMEOUT_SECONDS", 30 if answer else 0.05)
    address = server(site, credentialProvider=PROVIDER)
    with closing(Connection(address)) as connection:
        clock(300)
        with monkeypatch.context() as patched:
            patched.setattr(VAULT, "get_credentials", answer or ends.wait)
            assert connection.command("ACL", "WHOAMI") == b"job"
            with pytest.raises(ServerError, match=rf"\[CREDENTIALS_MISSING\].*:provider.*{reason}"):
                Connection(address)
        ends.set()
        assert "The connection keeps its previous login" in caplog.text
        assert reason in caplog.text
        clock(10)
        asked = VAULT.asked
        assert connection.command("PING") == b"PONG"
        assert VAULT.asked > asked


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"passwordFile": "/nowhere/secret"}, r"the file /nowhere/secret on \S+: FileNotFoundError"),
        ({"credentialProvider": "nowhere.at_all:provider"}, r"nowhere\.at_all:provider.*ModuleNotFoundError"),
        ({"credentialProvider": f"{__name__}:missing"}, r":missing.*AttributeError"),
        ({"credentialProvider": f"{__name__}:nothing"}, r"\(NoneType\) has no method get_credentials"),
        ({"credentialProvider": f"{__name__}:broken"}, r"LookupError: the vault is closed"),
    ],
)
def test_unavailable_credentials_are_an_immediate_error(site: Site, given: dict[str, str], reason: str) -> None:
    """If no credentials can be obtained, an error without retries names the file or function, the machine and the
    cause.
    """
    with pytest.raises(ServerError, match=rf"\[CREDENTIALS_MISSING\].*{reason}.*Correct the option passwordFile"):
        Connection(server(site, **given))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"hunter2\xff\xfe", "UnicodeError: the file is not UTF-8"),
        ("hunter2".encode("utf-16"), "UnicodeError: the file is not UTF-8"),
        (b"", "ValueError: the file is empty"),
        (b"\r\n", "ValueError: the file is empty"),
        (None, "IsADirectoryError: "),
    ],
)
def test_a_password_file_that_has_no_password_is_an_error(
    site: Site, tmp_path: Path, content: bytes | None, reason: str
) -> None:
    """A file that is binary or empty, or a directory, is an error; neither the error nor its causes show any byte of
    the file.
    """
    secret = tmp_path / "secret"
    if content is None:
        secret.mkdir()
    else:
        secret.write_bytes(content)
    with pytest.raises(ServerError, match=rf"\[CREDENTIALS_MISSING\].*the file {secret} on .*{reason}") as refused:
        Connection(server(site, passwordFile=str(secret)))
    shown = "".join(traceback.format_exception(refused.value))
    assert not re.search(r"hunter2|0xff|\\xff|position", shown)
    cause: BaseException | None = refused.value
    while cause is not None:
        assert not isinstance(cause, UnicodeDecodeError)
        cause = cause.__cause__ or cause.__context__


@pytest.mark.parametrize(
    "given",
    [
        {"password": "x", "passwordFile": "/secret"},
        {"passwordFile": "/secret", "credentialProvider": "a:b"},
        {"user": "x", "credentialProvider": "a:b"},
        {"url": "redis://:x@host", "passwordFile": "/secret"},
        {"url": "redis://x@host", "credentialProvider": "a:b"},
        {"credentialProvider": "no function"},
    ],
)
def test_a_secret_from_two_places_is_refused(given: dict[str, str]) -> None:
    """Two sources for one secret are an error, because one of them would be ignored silently."""
    with pytest.raises(OptionsError, match=r"passwordFile|credentialProvider"):
        options.server({"url": "redis://host", **given})


@pytest.mark.parametrize("way", ["url", "option", "environment", "file", "provider"])
@pytest.mark.parametrize("mode", ["range", "shared"])
def test_no_secret_shows_up_anywhere(
    site: Site,
    user: redis.Redis,
    way: str,
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Secrets do not appear in logs, offsets, representations of objects, errors, server keys, or (from files) pickled
    data.
    """
    (tmp_path / "secret").write_text(OLD)
    given = {"user": "job"}
    url = site.url
    if way == "url":
        url, given = site.url.replace("://", f"://job:{OLD}@"), {}
    elif way == "option":
        given["password"] = OLD
    elif way == "environment":
        monkeypatch.setenv("PYSTREAMS_PASSWORD", OLD)
    elif way == "file":
        given["passwordFile"] = str(tmp_path / "secret")
    else:
        given = {"credentialProvider": PROVIDER}
    site.add("s", 5)
    with caplog.at_level(logging.DEBUG):
        parsed = options.read_options({"url": url, "stream": "s", **given})
        address = parsed.address
        query = Query(url, stream="s", group="g", startingOffsets="earliest", consume=mode, **given)
        assert len(query.trigger() or []) == 5
        start, end = (json.loads(text) for text in query.log[-2:])
        parts = query.reader.partitions(start, end)
        with pytest.raises(PystreamsError) as refused:
            Connection(Address(url, credentials=address.credentials)).command("NOSUCH", "x")
        allow(user, NEW)
        pool.close_all()
        with pytest.raises(PystreamsError, match="LOGIN_REFUSED") as login:
            Connection(address)
    printed = [repr(shown) for shown in (parsed, address, address.login, query.reader, parts, vars(query.reader))]
    printed += [str(address), str(refused.value), str(login.value), caplog.text, *query.log]
    stored = [site.client.dump(key) or b"" for key in site.client.scan_iter()] + list(site.client.scan_iter())
    travels = pickle.dumps(parts)
    assert not [text for text in printed if OLD in text]
    assert not [value for value in stored if OLD.encode() in value]
    assert (OLD.encode() in travels) == (way in ("url", "option", "environment"))
