"""ACL commands and their effects: the same on the core, the engine over TCP and a real Redis.

Redis 7.2 changed error texts and shows command rules as they were given; ``before`` has the earlier replies. The module
is long because all cases use one user (`as_user`) and one server whose users are restored (`acl`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.clients import Client, SocketClient
from tests.harness.kinds import Server
from tests.harness.marks import over_tcp, since
from tests.harness.replies import ANY, NOT_AN_INTEGER, OK, Between, Error, Map, unknown_command
from tests.servers.releases import Newest

PW_HASH = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4"
WRONG_PASSWORD = Error("WRONGPASS invalid username-password pair or user is disabled.")
NO_AUTH = Error("NOAUTH Authentication required.")
_NO_FILE = (
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER "
    "command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store "
    "users in the Redis configuration."
)
NO_FILE = Newest(Error(_NO_FILE), valkey={"8.0": Error(_NO_FILE.replace("Redis ", ""))})
UNKNOWN = "Unknown command or category name in ACL"


@pytest.fixture
def acl(server: Server) -> Iterator[Server]:
    """Yield a server, and afterwards delete its users, reset its default user and empty ACL LOG."""
    admin = server.main
    yield server
    for name in server.run("ACL USERS"):
        if name != b"default":
            admin.run("ACL", "DELUSER", name)
    admin.run("ACL", "SETUSER", "default", "reset", "on", "nopass", "~*", "&*", "+@all")
    admin.run("ACL", "LOG", "RESET")


def lines(server: Server) -> list[str]:
    """Return ACL LIST without the flag ``sanitize-payload``, which newer releases add to every user."""
    return [line.decode().replace(" sanitize-payload", "") for line in server.run("ACL LIST")]


def refused(server: Server, kind: str, name: str = "", user: str = "u") -> Error:
    """Return the error for a rejected command, key or channel."""
    old = {
        "command": f"NOPERM this user has no permissions to run the '{name}' command",
        "key": "NOPERM this user has no permissions to access one of the keys used as arguments",
        "channel": "NOPERM this user has no permissions to access one of the channels used as arguments",
    }
    new = {
        "command": f"NOPERM User {user} has no permissions to run the '{name}' command",
        "key": "NOPERM No permissions to access a key",
        "channel": "NOPERM No permissions to access a channel",
    }
    return Error(server.newest(new, before={"7.2": old})[kind])


def as_user(server: Server, *rules: str, name: str = "u") -> Client:
    """Return a client logged in as a user with these rules."""
    server.expect(("ACL", "SETUSER", name, "reset", "on", ">pw", *rules), OK)
    client = server.client()
    client.expect(f"AUTH {name} pw", OK)
    return client


# -- users ----------------------------------------------------------------------------------------------------------


def test_users_are_created_and_deleted(acl: Server) -> None:
    """SETUSER makes a user, USERS and LIST show all users by name, and DELUSER returns the number of deleted users."""
    acl.expect("ACL WHOAMI", "default")
    acl.expect("ACL USERS", ["default"])
    acl.expect("ACL SETUSER zoe", OK)
    acl.expect(("ACL", "SETUSER", "zoe", "", "off"), OK)
    acl.expect("ACL SETUSER bob on >pw ~a* %R~b &c +config|get", OK)
    acl.expect("ACL USERS", ["bob", "default", "zoe"])
    assert lines(acl) == [
        f"user bob on #{PW_HASH} ~a* %R~b resetchannels &c -@all +config|get",
        "user default on nopass ~* &* +@all",
        "user zoe off resetchannels -@all",
    ]
    acl.expect("ACL DELUSER bob nobody zoe", 2)
    acl.expect("ACL USERS", ["default"])
    acl.expect_error("ACL DELUSER nobody default", "ERR The 'default' user cannot be removed")


def test_getuser_groups_the_rules_by_kind(acl: Server) -> None:
    """ACL GETUSER returns flags, passwords, commands, keys, channels and selectors; nil for a missing user."""
    acl.given(("ACL", "SETUSER", "u", "on", ">pw", "~a", "&c", "+get", "(+set ~b)"))
    databases = acl.newest({}, before={}, valkey={"9.1": {"databases": "alldbs"}})
    selector = Map({"commands": "-@all +set", "keys": "~b", "channels": "", **databases})
    expected = Map(
        {
            "flags": Newest(["on", "sanitize-payload"], before={"7.2": ["on"]}, valkey={"9.0": ["on"]}),
            "passwords": [PW_HASH],
            "commands": "-@all +get",
            "keys": "~a",
            "channels": "&c",
            **databases,
            "selectors": [selector],
        }
    )
    acl.expect("ACL GETUSER u", expected)
    acl.expect("ACL GETUSER nobody", None)


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (["foo"], "ERR Error in ACL SETUSER modifier 'foo': Syntax error"),
        (["on", "+foo", "off"], f"ERR Error in ACL SETUSER modifier '+foo': {UNKNOWN}"),
        (["+@foo"], f"ERR Error in ACL SETUSER modifier '+@foo': {UNKNOWN}"),
        (["+config|foo"], f"ERR Error in ACL SETUSER modifier '+config|foo': {UNKNOWN}"),
        (["-debug|sleep"], f"ERR Error in ACL SETUSER modifier '-debug|sleep': {UNKNOWN}"),
        (["(+foo)"], f"ERR Error in ACL SETUSER modifier '(+foo)': {UNKNOWN}"),
        (["(+get", "~a"], "ERR Unmatched parenthesis in acl selector starting at '(+get'."),
        (["((+get)", "~a", ")"], "ERR Error in ACL SETUSER modifier '((+get)': Syntax error"),
        (
            ["#abc"],
            "ERR Error in ACL SETUSER modifier '#abc': The password hash must be exactly 64 characters and contain "
            "only lowercase hexadecimal characters",
        ),
        (
            ["<no"],
            "ERR Error in ACL SETUSER modifier '<no': The password you are trying to remove from the user does not "
            "exist",
        ),
        (
            ["~*", "~a"],
            "ERR Error in ACL SETUSER modifier '~a': Adding a pattern after the * pattern (or the 'allkeys' flag) is "
            "not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns",
        ),
        (
            ["&*", "&a"],
            "ERR Error in ACL SETUSER modifier '&a': Adding a pattern after the * pattern (or the 'allchannels' flag) "
            "is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels",
        ),
    ],
)
def test_a_wrong_rule_changes_nothing(acl: Server, rules: list[str], error: str) -> None:
    acl.expect_error(("ACL", "SETUSER", "u", *rules), error)
    acl.expect("ACL USERS", ["default"])
    acl.given("ACL SETUSER u on >pw")
    before = lines(acl)
    acl.expect_error(("ACL", "SETUSER", "u", "off", *rules), error)
    assert lines(acl) == before


CASES: list[tuple[Any, Any]] = [
    ("ACL", Error("ERR wrong number of arguments for 'acl' command")),
    ("ACL FOO", Error("ERR unknown subcommand 'FOO'. Try ACL HELP.")),
    ("ACL SETUSER", Error("ERR wrong number of arguments for 'acl|setuser' command")),
    (("ACL", "SETUSER", "a b"), Error("ERR Usernames can't contain spaces or null characters")),
    (("ACL", "SETUSER", b"a\0b"), Error("ERR Usernames can't contain spaces or null characters")),
    ("ACL WHOAMI x", Error("ERR wrong number of arguments for 'acl|whoami' command")),
    ("ACL DELUSER", Error("ERR wrong number of arguments for 'acl|deluser' command")),
    ("ACL CAT foo", Error("ERR Unknown category 'foo'")),
    ("ACL CAT read x", Error("ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.")),
    ("ACL LOG x", NOT_AN_INTEGER),
    ("ACL LOG -1", []),
    ("ACL LOG 1 2", Error("ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP.")),
    ("ACL LOG RESET", OK),
    ("ACL DRYRUN nobody get x", Error("ERR User 'nobody' not found")),
    ("ACL DRYRUN default foo", Error("ERR Command 'foo' not found")),
    ("ACL DRYRUN default config foo", Error("ERR Command 'config' not found")),
    ("ACL DRYRUN default config", Error("ERR wrong number of arguments for 'config' command")),
    ("ACL DRYRUN default get", Error("ERR wrong number of arguments for 'get' command")),
    ("ACL DRYRUN default get x", OK),
    ("ACL LOAD", NO_FILE),
    ("ACL SAVE", NO_FILE),
]


def test_replies(acl: Server) -> None:
    for command, reply in CASES:
        acl.expect(command, reply)


def test_categories(acl: Server) -> None:
    """CAT lists the categories and a category's commands."""
    assert acl.run("ACL CAT")[:3] == [b"keyspace", b"read", b"write"]
    of_redis = {name for name in acl.run("ACL CAT TRANSACTION") if not name.startswith(b"ps.")}
    assert of_redis == {b"discard", b"exec", b"multi", b"unwatch", b"watch"}


# -- what a user may do -----------------------------------------------------------------------------------------------

RULES = (
    "+get",
    "+set",
    "+mset",
    "+xadd",
    "+xread",
    "+xreadgroup",
    "+xrange",
    "+xack",
    "+xlen",
    "+copy",
    "+publish",
    "+subscribe",
    "+psubscribe",
    "+client|id",
    "+acl|whoami",
    "+exists",
    "%R~r*",
    "%W~w*",
    "~k*",
    "&c*",
)


@pytest.mark.parametrize(
    ("command", "kind", "name"),
    [
        ("GET k", "", ""),
        ("GET x", "key", "x"),
        ("DEL k", "command", "del"),
        ("CLIENT INFO", "command", "client|info"),
        ("SET w 1 GET", "key", "w"),
        ("MSET k 1 x 2", "key", "x"),
        ("COPY w r", "key", "w"),
        ("XADD r * f v", "key", "r"),
        ("XREAD STREAMS r w 0 0", "key", "w"),
        ("PUBLISH c m", "", ""),
        ("PUBLISH d m", "channel", "d"),
        ("SUBSCRIBE d", "channel", "d"),
        ("PSUBSCRIBE c1", "channel", "c1"),
        ("ACL LIST", "command", "acl|list"),
    ],
)
def test_forbidden_commands_are_rejected_and_logged(acl: Server, command: str, kind: str, name: str) -> None:
    """A command without permission is rejected.

    DRYRUN predicts the rejection and ACL LOG records it, both with the name of the command, key or channel. (The
    verdicts on random commands are compared in test_acl_random.py.)
    """
    client = as_user(acl, *RULES)
    foretold = acl.run(*f"ACL DRYRUN u {command}".split())
    reply = client.run(command)
    entries = acl.run("ACL LOG")
    if not kind:
        assert not (isinstance(reply, Error) and reply.text.startswith("NOPERM")), reply
        assert (foretold, entries) == (b"OK", [])
        return
    assert reply == refused(acl, kind, name)
    who = acl.newest("User u", before={"7.2": "This user"})
    action = f"run the '{name}' command" if kind == "command" else f"access the '{name}' {kind}"
    assert foretold == f"{who} has no permissions to {action}".encode()
    logged = entries[0] if isinstance(entries[0], dict) else dict(zip(entries[0][::2], entries[0][1::2], strict=True))
    assert logged[b"count"] == 1
    assert logged[b"reason"] == kind.encode()
    assert logged[b"context"] == b"toplevel"
    assert logged[b"object"] == name.encode()
    assert logged[b"username"] == b"u"
    assert b" user=u " in logged[b"client-info"] + b" "


def test_unknown_commands_and_wrong_arity_come_before_permissions(acl: Server) -> None:
    client = as_user(acl, "+get", "~*")
    client.expect("FOO", unknown_command("FOO"))
    client.expect("DEL", Error("ERR wrong number of arguments for 'del' command"))
    client.expect("XGROUP FOO", Error("ERR unknown subcommand 'FOO'. Try XGROUP HELP."))


def test_a_user_without_permissions_may_log_in_and_reset(acl: Server) -> None:
    """AUTH, HELLO and RESET need no permission."""
    client = as_user(acl, "-@all")
    client.expect("PING", refused(acl, "command", "ping"))
    client.expect("AUTH u pw", OK)
    assert not isinstance(client.run(f"HELLO {acl.proto}"), Error)
    client.expect("RESET", "RESET")
    client.expect("ACL WHOAMI", "default")


def test_a_changed_user_applies_from_the_next_command_on(acl: Server) -> None:
    """Changes also apply to open connections; a disabled user stays logged in, but cannot log in again."""
    client = as_user(acl, "+@all", "~*")
    client.expect("SET k 1", OK)
    acl.given("ACL SETUSER u -set")
    client.expect("SET k 1", refused(acl, "command", "set"))
    acl.given("ACL SETUSER u off resetkeys ~a")
    client.expect("GET k", refused(acl, "key"))
    client.expect("GET a", None)
    acl.client().expect("AUTH u pw", WRONG_PASSWORD)


# -- transactions ---------------------------------------------------------------------------------------------------


def test_a_transaction_with_a_refused_command_is_discarded(acl: Server) -> None:
    client = as_user(acl, "+get", "+multi", "+exec", "~k")
    client.expect("MULTI", OK)
    client.expect("GET k", "QUEUED")
    client.expect("GET x", refused(acl, "key"))
    client.expect("DEL k", refused(acl, "command", "del"))
    client.expect("EXEC", Error("EXECABORT Transaction discarded because of previous errors."))
    first = acl.run("ACL LOG 1")[0]
    assert b"multi" in (first.values() if isinstance(first, dict) else first)


def test_permissions_are_checked_again_at_exec(acl: Server) -> None:
    """A queued command whose permission is revoked fails alone, and the others run.

    Redis 8.6 does not check keys at EXEC any more. The engine does, so that a revoked permission applies at once.
    """
    client = as_user(acl, "+@all", "~*")
    no_longer = (
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command "
        "is no longer allowed for the following reason: "
    )
    for change, why in (
        (("-set",), "no permission to execute the command or subcommand"),
        (("resetkeys", "~k"), "no permission to touch the specified keys"),
    ):
        refusal = Error(no_longer + why)
        acl.given("ACL SETUSER u +@all ~*")
        for command in ("MULTI", "GET k", "SET x 1"):
            client.run(command)
        acl.given(("ACL", "SETUSER", "u", *change))
        asked = change == ("-set",)
        client.expect("EXEC", [None, refusal if asked else Newest("OK", before={"8.6": refusal}, engine=refusal)])


def test_exec_itself_may_be_forbidden(acl: Server) -> None:
    """EXEC without permission discards the transaction."""
    client = as_user(acl, "+get", "+multi", "+discard", "~*")
    client.expect("MULTI", OK)
    client.expect("GET k", "QUEUED")
    text = refused(acl, "command", "exec").text
    client.expect("EXEC", Error(f"EXECABORT Transaction discarded because of: {text}"))
    client.expect("DISCARD", Error("ERR DISCARD without MULTI"))


def test_a_blocked_client_is_checked_again(acl: Server) -> None:
    """From 7.2 on, a waiting client gets NOPERM if it may not read the key any more when an entry arrives."""
    client = as_user(acl, "+@all", "~*")
    client.send("XREAD BLOCK 0 STREAMS s $")
    client.expect_blocked()
    acl.given("ACL SETUSER u resetkeys ~other")
    acl.given("XADD s 1-1 f v")
    expected: Any = refused(acl, "key")
    if not acl.since("7.2"):
        expected = ANY
    client.expect_reply(expected)


# -- passwords ------------------------------------------------------------------------------------------------------


def test_the_default_user_s_password(acl: Server) -> None:
    """requirepass sets the default user's password, open connections stay logged in, and ACL rules can change it."""
    acl.config("requirepass", "one")
    assert lines(acl)[0].startswith("user default on #")
    acl.expect("ACL SETUSER default >two <one", OK)
    acl.expect("AUTH one", WRONG_PASSWORD)
    acl.expect("AUTH two", OK)
    acl.expect("AUTH default two", OK)
    acl.expect("ACL SETUSER default nopass", OK)
    assert acl.run("AUTH x").text.startswith("ERR AUTH <password> called without any password configured")


@over_tcp
def test_commands_before_login(acl: Server) -> None:
    """Before login, commands other than AUTH, HELLO with AUTH, and RESET get NOAUTH.

    Unknown commands and a wrong arity are reported first.
    Valkey 9 reveals nothing about commands before login.
    """
    early = acl.client()
    acl.config("requirepass", "pw")
    early.expect("PING", "PONG")
    with _bare(acl) as client:
        client.expect("PING", NO_AUTH)
        wrong_arity = Error("ERR wrong number of arguments for 'get' command")
        client.expect("GET", Newest(wrong_arity, valkey={"9.0": NO_AUTH}))
        client.expect("FOO", Newest(unknown_command("FOO"), valkey={"9.0": NO_AUTH}))
        client.expect("MULTI", NO_AUTH)
        client.expect("EXEC", Error("EXECABORT Transaction discarded because of: NOAUTH Authentication required."))
        client.expect("AUTH x", WRONG_PASSWORD)
        hello = Newest("HELLO <proto> AUTH", before={"7.2": "HELLO AUTH"}).of(acl.release)
        client.expect(
            "HELLO 3",
            Error(
                f"NOAUTH HELLO must be called with the client already authenticated, otherwise the {hello} <user> "
                "<pass> option can be used to authenticate the client and select the RESP protocol version at the "
                "same time"
            ),
        )
        client.expect("HELLO 3 AUTH default x", WRONG_PASSWORD)
        client.expect("RESET", "RESET")
        assert isinstance(client.run("HELLO 2 AUTH default pw SETNAME me"), list)
        client.expect("CLIENT GETNAME", "me")
        client.expect("RESET", "RESET")
        client.expect("PING", NO_AUTH)
    early.expect("CONFIG SET requirepass", Error("ERR wrong number of arguments for 'config|set' command"))
    early.expect(("CONFIG", "SET", "requirepass", ""), OK)


@over_tcp
def test_the_default_user_can_be_switched_off(acl: Server) -> None:
    """After the default user is disabled, a login without a user name fails; open connections stay logged in."""
    acl.given("ACL SETUSER u on >pw +@all", "ACL SETUSER default off")
    with _bare(acl) as client:
        client.expect("PING", NO_AUTH)
        client.expect("AUTH default x", WRONG_PASSWORD)
        client.expect("AUTH u pw", OK)
        client.expect("PING", "PONG")
    acl.expect("PING", "PONG")
    acl.given("ACL SETUSER default on")


def _bare(server: Server) -> SocketClient:
    """Return a new connection without the commands that the harness usually sends."""
    client = SocketClient(server.running.connect(), 2, None)  # type: ignore[attr-defined]
    client.release = server.release
    return client


def test_failed_logins_are_logged(acl: Server) -> None:
    """ACL LOG records the given name of failed logins, with one entry per name and the number of attempts."""
    client = acl.client()
    for command in ("AUTH nobody a", "AUTH nobody b", f"HELLO {acl.proto} AUTH other c"):
        client.expect(command, WRONG_PASSWORD)
    shown = [
        (entry if isinstance(entry, dict) else dict(zip(entry[::2], entry[1::2], strict=True)))
        for entry in acl.run("ACL LOG")
    ]
    assert [(entry[b"reason"], entry[b"object"], entry[b"username"], entry[b"count"]) for entry in shown] == [
        (b"auth", b"HELLO", b"other", 1),
        (b"auth", b"AUTH", b"nobody", 2),
    ]
    assert len(acl.run("ACL LOG 1")) == 1


@since("7.2")
def test_log_entries_have_numbers_and_times(acl: Server) -> None:
    """ACL LOG entries have entry-id, timestamp-created and timestamp-last-updated; INFO counts rejections."""
    client = acl.client()
    client.expect("AUTH nobody a", WRONG_PASSWORD)
    now = acl.now
    (entry,) = acl.run("ACL LOG")
    fields = entry if isinstance(entry, dict) else dict(zip(entry[::2], entry[1::2], strict=True))
    assert list(fields)[-3:] == [b"entry-id", b"timestamp-created", b"timestamp-last-updated"]
    assert fields[b"timestamp-created"] == Between(now - 60_000, now + 1)
    assert re.search(rb"acl_access_denied_auth:[1-9]", acl.run("INFO stats"))


# -- connections that end ---------------------------------------------------------------------------------------------


@over_tcp
def test_connections_of_a_deleted_user_are_closed(acl: Server) -> None:
    """ACL DELUSER disconnects other connections at once, and the caller's own after the reply."""
    client = as_user(acl, "+@all")
    acl.expect("ACL DELUSER u", 1)
    client.expect_closed()  # type: ignore[attr-defined]
    caller = as_user(acl, "+@all")
    caller.expect("ACL DELUSER u", 1)
    caller.expect_closed()  # type: ignore[attr-defined]


@over_tcp
def test_a_user_s_connections_can_be_killed(acl: Server) -> None:
    client = as_user(acl, "+@all")
    acl.expect("CLIENT KILL USER u", 1)
    client.expect_closed()  # type: ignore[attr-defined]


@over_tcp
@pytest.mark.parametrize(
    ("command", "rules", "stays"),
    [
        ("SUBSCRIBE c1", "resetchannels &c1 &d", True),
        ("SUBSCRIBE c1", "resetchannels &c*", True),
        ("SUBSCRIBE c1", "resetchannels &d", False),
        ("SUBSCRIBE c1", "resetchannels", False),
        ("PSUBSCRIBE c*", "resetchannels &c* &d", True),
        ("PSUBSCRIBE c*", "resetchannels &c1", False),
        ("SUBSCRIBE c1", "resetchannels (&c1)", True),
        ("SUBSCRIBE c1", "off -@all", True),
    ],
)
def test_subscribers_that_lose_permission_are_disconnected(acl: Server, command: str, rules: str, stays: bool) -> None:
    """A subscriber is disconnected when its user loses permission for the channel or pattern."""
    client = as_user(acl, "+@all", "&*")
    client.run(command)
    acl.given(("ACL", "SETUSER", "u", *rules.split()))
    if stays:
        acl.expect("PUBLISH c1 m", 1)
        assert client.receive()[-1] == b"m"
    else:
        client.expect_closed()  # type: ignore[attr-defined]


# -- memory -----------------------------------------------------------------------------------------------------------


@over_tcp
def test_writes_are_rejected_without_memory(acl: Server) -> None:
    """Above maxmemory, commands that need memory are rejected, also in transactions; reads and deletions work.

    Before 7.2, everything is rejected in a transaction.
    """
    oom = Error("OOM command not allowed when used memory > 'maxmemory'.")
    acl.given("SET a 1", "XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    client = acl.client()
    client.run("MULTI")
    client.expect("SET b 1", "QUEUED")
    acl.config("maxmemory", "1")
    client.expect("EXEC", Error(f"EXECABORT Transaction discarded because of: {oom.text}"))
    for command in ("SET b 1", "XADD s * f v", "XGROUP CREATE s h 0", "HSET h f v"):
        acl.expect(command, oom)
    for command, reply in (
        ("GET a", "1"),
        ("XLEN s", 1),
        ("XACK s g 1-1", 1),
        ("XTRIM s MAXLEN 0", 1),
        ("XGROUP DESTROY s g", 1),
        ("DEL a", 1),
        ("PING", "PONG"),
        ("PUBLISH c m", 0),
    ):
        acl.expect(command, reply)
    aborted = Error("EXECABORT Transaction discarded because of previous errors.")
    acl.expect("MULTI", OK)
    acl.expect("GET a", Newest("QUEUED", before={"7.2": oom}))
    acl.expect("EXEC", Newest([None], before={"7.2": aborted}))
    acl.expect("MULTI", OK)
    acl.expect("SET b 1", oom)
    acl.expect("EXEC", aborted)
    acl.expect("CONFIG SET maxmemory 0", OK)
    acl.expect("SET b 1", OK)
