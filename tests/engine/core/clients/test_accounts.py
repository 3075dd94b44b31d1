"""Users of a core: logging in, ACL files, the log of rejections, permissions of commands that run later."""

from __future__ import annotations

import pytest

from engine.core.clients.accounts import UsersError
from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.protocol.replies import CommandError
from engine.settings.config import Config
from engine.wire.bulk import Scanner

NOW_US = 1_700_000_000_000_000
UNCHANGED = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"


def core_with(*users: str) -> Core:
    core = Core(Config())
    for line in users:
        name, *rules = line.split()
        core.accounts.set_user(name.encode(), [rule.encode() for rule in rules])
    return core


def run(core: Core, session: Session, text: str, now_us: int = NOW_US) -> object:
    reply = core.execute(session, text.encode().split(), now_us)
    return reply.text.decode() if isinstance(reply, CommandError) else reply


def logged_in(core: Core, name: str) -> Session:
    session = core.open_session(NOW_US)
    assert run(core, session, f"AUTH {name} pw") == b"OK"
    return session


# -- text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("foo\n", "f:1: should start with user keyword followed by the username; "),
        ("user\n", "f:1: should start with user keyword followed by the username; "),
        ("user a on\nuser b foo\n", "f:2: Error in ACL SETUSER modifier 'foo': Syntax error; "),
        ("user a on\nuser a off\n", "f:2: Duplicate user 'a' found; "),
        ("user a (+get\n", "f:1: Unmatched parenthesis in acl selector starting at '(+get'.; "),
    ],
)
def test_an_invalid_acl_file_changes_no_user(text: str, error: str) -> None:
    """An invalid file is rejected with the line and the reason, and the users are unchanged."""
    core = core_with("old on nopass")
    with pytest.raises(UsersError) as raised:
        core.accounts.load(text.encode(), b"f")
    assert str(raised.value) == error + UNCHANGED
    assert sorted(core.accounts.users) == [b"default", b"old"]


def test_loading_a_file_replaces_all_users() -> None:
    """Users missing from the file are deleted, the default user is reset, comments and blank lines are ignored."""
    core = core_with("old on nopass", "default +@all -get")
    core.accounts.load(b"# comment\n\nuser new on   nopass  (+get ~a)\r\n  user two off\n", b"f")
    assert core.accounts.text().decode() == (
        "user default on nopass sanitize-payload ~* &* +@all\n"
        "user new on nopass sanitize-payload resetchannels -@all (~a resetchannels -@all +get)\n"
        "user two off sanitize-payload resetchannels -@all\n"
    )
    before = core.accounts.text()
    core.accounts.load(before, b"f")
    assert core.accounts.text() == before


def test_loading_closes_connections_of_deleted_and_restricted_users() -> None:
    """Users who are deleted or lose permissions are disconnected; users with the same or more permissions are not."""
    core = core_with(*(f"{name} on >pw ~* &* +@all" for name in ("deleted", "less", "same")))
    deleted, less, same = (logged_in(core, name) for name in ("deleted", "less", "same"))
    for session in (less, same):
        run(core, session, "SUBSCRIBE c")
    core.accounts.load(b"user less on >pw ~* resetchannels &d +@all\nuser same on >pw &c +@all\n", b"f")
    assert [session.close_requested for session in (deleted, less, same)] == [True, True, False]
    assert deleted.user is core.accounts.default
    assert not deleted.logged_in


def test_user_lines_of_a_configuration() -> None:
    """User lines replace the default user too; a repeated name or an invalid rule is an error that names the user."""
    core = core_with()
    core.accounts.load_configured([[b"default", b"on", b"nopass", b"~*", b"+@all", b"-flushdb"], [b"a", b"on"]])
    assert core.accounts.configured() == [
        b"user a on sanitize-payload resetchannels -@all",
        b"user default on nopass sanitize-payload ~* resetchannels +@all -flushdb",
    ]
    assert core_with().accounts.configured() == []
    for users, error in (
        ([[b"a"], [b"a"]], "Duplicate user 'a' found"),
        ([[b"a", b"+foo"]], "user a: Error in ACL SETUSER modifier '\\+foo': Unknown command"),
        ([[b"a b"]], "can't contain spaces"),
    ):
        with pytest.raises(UsersError, match=error):
            core_with().accounts.load_configured(users)


# -- logging in -----------------------------------------------------------------------------------------------------


def test_replayed_commands_need_no_permissions() -> None:
    """Replayed commands run even if the default user has no permissions and memory is full."""
    core = core_with("default off -@all")
    core.admission.memory_full = core.changes.replaying = True
    session = core.open_session(NOW_US)
    assert run(core, session, "XADD s 1-1 f v") == b"1-1"


# -- commands that run later ----------------------------------------------------------------------------------------


def run_of(count: int, key: bytes) -> bytes:
    command = b"*5\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n" % (len(key), key)
    return command * count


def test_a_run_for_several_keys_is_checked_for_each() -> None:
    """A single key that the user may not write declines the batch, and no key is changed."""
    core = core_with("u on >pw +xadd ~s*")
    session = logged_in(core, "u")
    for keys, allowed in (((b"s1", b"s2"), True), ((b"s3", b"t1"), False)):
        found = Scanner().scan(b"".join(run_of(1, key) for _ in range(100) for key in keys))
        assert found is not None
        assert found.count == 200
        assert (core.execute_run(session, found, NOW_US) is not None) is allowed
        assert [key in core.databases[0] for key in keys] == [allowed] * 2


def test_a_run_of_xadds_is_declined_when_memory_is_full() -> None:
    """While memory is full, runs of XADD are declined, and each of their commands is rejected on its own."""
    core = core_with()
    session = core.open_session(NOW_US)
    core.admission.memory_full = True
    found = Scanner().scan(run_of(100, b"stream"))
    assert found is not None
    assert core.execute_run(session, found, NOW_US) is None
    assert str(run(core, session, "XADD s * f v")).startswith("OOM ")


# -- the log --------------------------------------------------------------------------------------------------------


def test_repeated_refusals_are_one_log_entry_for_a_minute() -> None:
    """Repeated rejections move one entry to the front and increase its count; after a minute a new entry is added."""
    core = core_with("u on >pw +get ~k")
    session = logged_in(core, "u")
    run(core, session, "GET a")
    run(core, session, "GET b", NOW_US + 1_000_000)
    run(core, session, "GET a", NOW_US + 60_000_000)
    log = core.accounts.log
    assert [(entry.name, entry.count, entry.number) for entry in log.entries] == [(b"a", 2, 0), (b"b", 1, 1)]
    assert log.entries[0].created_ms == NOW_US // 1000
    run(core, session, "GET a", NOW_US + 121_000_000)
    assert [(entry.name, entry.count) for entry in log.entries] == [(b"a", 1), (b"a", 2), (b"b", 1)]
    assert log.denied == {"auth": 0, "command": 0, "key": 4, "channel": 0, "tls-cert": 0}
