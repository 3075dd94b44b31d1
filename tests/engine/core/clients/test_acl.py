"""Users and ACL rules, without a server: their syntax and effect, and ACL LIST and ACL SAVE output."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import commands as _commands  # noqa: F401 - fills the command table
from engine.core.clients.acl import CATEGORIES, RuleError, User, merged

A, B = (hashlib.sha256(password).hexdigest().encode() for password in (b"a", b"b"))


def user(*rules: str) -> User:
    result = User(b"u")
    for rule in rules:
        result.apply(rule.encode())
    return result


def shown(user: User) -> str:
    """Return the line of ACL LIST without the parts that all users share."""
    return user.line().decode().removeprefix("user u ").replace("sanitize-payload ", "")


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        ("", "off resetchannels -@all"),
        ("on nopass ~* &* +@all", "on nopass ~* &* +@all"),
        ("allkeys allchannels allcommands", "off ~* &* +@all"),
        ("ALLKEYS resetkeys", "off resetchannels -@all"),
        ("%R~a %W~b %RW~c %rw~d ~e", "off %R~a %W~b ~c ~d ~e resetchannels -@all"),
        ("%W~a %R~a", "off ~a resetchannels -@all"),
        ("%R~*", "off %R~* resetchannels -@all"),
        ("%RW~*", "off ~* resetchannels -@all"),
        ("%R", "off %R~ resetchannels -@all"),
        ("~a ~*", "off ~* resetchannels -@all"),
        ("&a &a &b", "off resetchannels &a &b -@all"),
        ("&a &*", "off &* -@all"),
        ("&* resetchannels &a", "off resetchannels &a -@all"),
        (">a >b <a", f"off #{B.decode()} resetchannels -@all"),
        (f"#{A.decode()} >a", f"off #{A.decode()} resetchannels -@all"),
        (f">a !{A.decode()}", "off resetchannels -@all"),
        ("nopass >a", f"off #{A.decode()} resetchannels -@all"),
        (">a nopass", "off nopass resetchannels -@all"),
        (">a resetpass", "off resetchannels -@all"),
        ("+GET -set", "off resetchannels -@all +get -set"),
        ("+get -get", "off resetchannels -@all -get"),
        ("+get +set +get", "off resetchannels -@all +set +get"),
        ("+@all -@HASH -@slow +hget", "off resetchannels +@all -@hash -@slow +hget"),
        ("+@hash -@hash", "off resetchannels -@all -@hash"),
        ("+get -@all +@all", "off resetchannels +@all"),
        ("+client|list +config|get +config +acl|list -acl", "off resetchannels -@all +client|list +config -acl"),
        ("+config +config|get -config|set +config", "off resetchannels -@all +config"),
        ("+xadd -del +@stream", "off resetchannels -@all +xadd -del +@stream"),
        ("(+get ~a) ()", "off resetchannels -@all (~a resetchannels -@all +get) (resetchannels -@all)"),
        ("( %R~a &b +@read )", "off resetchannels -@all (%R~a resetchannels &b -@all +@read)"),
        ("(+get ~a) clearselectors", "off resetchannels -@all"),
        ("on >a ~* &* +@all (+get) reset", "off resetchannels -@all"),
    ],
)
def test_rules_are_shown_as_redis_shows_them(rules: str, line: str) -> None:
    """ACL LIST shows the rules given to ACL SETUSER in the form of Redis 7.2 and later."""
    ops, _ = merged(rules.encode().split())
    assert shown(user(*(op.decode() for op in ops))) == line


def test_rules_written_for_redis_may_name_commands_that_the_engine_lacks() -> None:
    """Rules with categories and commands of lists, sorted sets, scripts and bits are accepted and shown."""
    rules = (
        "+@all -@list +@sortedset -@bitmap -zadd -blpop -sort -eval +script|kill -@scripting -setbit -setex -hexpire"
    )
    assert shown(user(*rules.split())).endswith(f"resetchannels {rules}")


def test_a_pattern_cannot_hold_blanks() -> None:
    for rule in (b"~a b", b"&a b", b"~a\0"):
        with pytest.raises(RuleError):
            User(b"u").apply(rule)


def test_a_category_and_its_exception_complement_each_other() -> None:
    """Every command is allowed to exactly one of two users, one with +@category and one with +@all -@category."""
    for name in CATEGORIES:
        additive, subtractive = user(f"+@{name}"), user("+@all", f"-@{name}")
        (yes,), (rest,) = additive.selectors, subtractive.selectors
        assert not yes.allowed & rest.allowed, name
        assert yes.allowed | rest.allowed == user("+@all").selectors[0].allowed, name
        assert not subtractive.free


def test_a_user_is_free_only_if_nothing_is_forbidden() -> None:
    """A user is ``free``, which skips permission checks, only if all keys, channels and commands are allowed."""
    assert user("~*", "&*", "+@all").free
    assert User.all_powerful(b"x").free
    for rules in (("~*", "+@all"), ("&*", "+@all"), ("~*", "&*", "+@all", "-get"), ("~*", "&*", "+@all", "-del")):
        assert not user(*rules).free
    assert not user("~*", "&*", "+@all", "resetkeys").free


_RULES = """
    on off nopass resetpass >a >b ~* ~a %R~b %W~b &* &c resetkeys allkeys resetchannels reset clearselectors
    +@all -@all +@read -@read +@stream -@dangerous +@connection -@connection +get -get +select
    +client|id -client +client -client|kill +xadd -del sanitize-payload skip-sanitize-payload (+get,~a)
"""


@given(st.lists(st.sampled_from(_RULES.split()), max_size=12))
def test_a_saved_user_line_restores_the_user(rules: list[str]) -> None:
    """A user restored from ACL SAVE's output has the same ACL LIST line and the same permissions."""
    original = User(b"u")
    for rule in rules:
        try:
            original.apply(rule.replace(",", " ").encode())
        except RuleError:
            continue
    words = original.line().split(b" ")
    ops, open_at = merged(words[2:])
    assert open_at is None
    restored = user(*(op.decode() for op in ops))
    assert restored.line() == original.line()
    assert restored.free == original.free
    for first, second in zip(original.selectors, restored.selectors, strict=True):
        for name in ("all_commands", "allowed", "patterns", "channels"):
            assert getattr(first, name) == getattr(second, name), name
