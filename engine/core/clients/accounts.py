"""The users of a server: the user of each session, logins, and recent refusals for ACL LOG and INFO.

Each session has a user (``engine.core.clients.acl.User``). For each command, dispatch reads only
``session.limited``: whether the user's permissions must be checked at all. ``Accounts.changed`` must be called after
each change to a user; otherwise sessions would keep their former permissions. The shell decides which file stores the
users across restarts (``Accounts.file``).

A refusal with the reason, context, name and user of one of the ten newest entries is counted in that entry, unless the
entry's last update is more than a minute ago. ``engine.core.commands.server.access`` formats the entries for ACL LOG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol

from engine.core.clients.acl import RuleError, User, merged
from engine.core.clients.session import Session
from engine.core.clients.sessions import Sessions, describe
from engine.core.keyspace.changes import Changes
from engine.core.protocol.replies import CommandError
from engine.core.table.registry import Command
from engine.settings.config import Config
from engine.text import messages

#: Maximum time since an entry's last update, in milliseconds, for counting an equal refusal in this entry.
_ALIKE_MS = 60_000
#: Maximum number of entries.
_MOST_ENTRIES = 128
#: Number of newest entries that a new refusal is compared with.
_COMPARED_ENTRIES = 10


@dataclass(slots=True)
class Entry:
    """Equal refusals, counted together. Times are milliseconds since the epoch."""

    number: int
    reason: str
    context: str
    name: bytes
    user: bytes
    created_ms: int
    updated_ms: int
    client: bytes
    count: int = 1


class AclLog:
    """The latest entries, newest first."""

    def __init__(self) -> None:
        self._next = 0
        self.entries: list[Entry] = []
        #: Number of refusals by reason.
        self.denied = {"auth": 0, "command": 0, "key": 0, "channel": 0, "tls-cert": 0}

    def add(self, reason: str, session: Session, name: bytes, user: bytes, now: int, *, context: str = "") -> None:
        """Add a refusal.

        ``name``: the refused command, key or channel. For a failed login as ``user``, ``name`` is the command that was
        used to log in; it is empty if a certificate was used.
        """
        self.denied[reason] += 1
        if not context:
            context = "multi" if session.multi is not None or session.in_exec else "toplevel"
        client = describe(session, now)
        kind = (reason, context, name, user)
        for entry in self.entries[:_COMPARED_ENTRIES]:
            alike = (entry.reason, entry.context, entry.name, entry.user) == kind
            if alike and now - entry.updated_ms <= _ALIKE_MS:
                entry.count += 1
                entry.updated_ms, entry.client = now, client
                self.entries.remove(entry)
                self.entries.insert(0, entry)
                return
        self.entries.insert(0, Entry(self._next, reason, context, name, user, now, now, client))
        self._next += 1
        del self.entries[_MOST_ENTRIES:]

    def reset(self) -> None:
        """Remove all entries."""
        self.entries.clear()


DEFAULT = b"default"


class AclFile(Protocol):
    """The file named by ``aclfile``. Failures raise OSError."""

    name: bytes

    def read(self) -> bytes:
        """Return the file's text."""

    def write(self, text: bytes) -> None:
        """Replace the file's text atomically."""


class UsersError(ValueError):
    """A text is not a valid list of users. The message names the line or the user, and the reason."""


class Accounts:
    """All users of one core. ``close`` closes the connection of a client that has lost its access."""

    def __init__(self, config: Config, changes: Changes, sessions: Sessions, close: Callable[[Session], None]) -> None:
        self._config = config
        self._changes = changes
        self._sessions = sessions
        self._close = close
        self.file: AclFile | None = None
        self.default = User.all_powerful(DEFAULT)
        self.users: dict[bytes, User] = {DEFAULT: self.default}
        self.log = AclLog()
        config.on_change("requirepass", self._follow_password)
        if config.text("requirepass"):
            self._follow_password()

    # -- users ------------------------------------------------------------------------------------------------------

    def sorted(self) -> list[User]:
        """Return all users, sorted by name."""
        return [self.users[name] for name in sorted(self.users)]

    def set_user(self, name: bytes, rules: Iterable[bytes]) -> None:
        """Create or change a user. Raise CommandError, without any change, if one of the rules is invalid."""
        old = self.users.get(name)
        new = _changed(deepcopy(old) if old is not None else User(name), rules)
        if old is None:
            self.users[name] = new
        else:
            self._replace(old, new)

    def _replace(self, old: User, new: User) -> None:
        """Replace a user's rules, and close the connections of subscribers that have lost access to a channel."""
        old.become(new)
        for session in list(self._sessions):
            if session.user is old and not new.may_subscribe(session.channels, session.patterns):
                self._close(session)
        self.changed()

    def delete(self, name: bytes) -> bool:
        """Delete a user and close its connections; return whether it existed."""
        user = self.users.pop(name, None)
        if user is not None:
            self._cut_off(user)
        return user is not None

    def _cut_off(self, user: User) -> None:
        for session in list(self._sessions):
            if session.user is user:
                session.user, session.logged_in = self.default, False
                self._refresh(session)
                self._close(session)

    def changed(self) -> None:
        """Update every session after a change to users."""
        for session in self._sessions:
            self._refresh(session)

    def _follow_password(self) -> None:
        password = self._config.text("requirepass")
        self.default.apply(b"resetpass")
        self.default.apply(b">" + password if password else b"nopass")
        self.changed()

    # -- sessions ---------------------------------------------------------------------------------------------------

    def greet(self, session: Session) -> None:
        """Give the session the default user, and log it in if this user is enabled and needs no password."""
        session.user = self.default
        session.logged_in = self.default.nopass and self.default.enabled
        self._refresh(session)

    def trust(self, session: Session) -> None:
        """Mark the session as the server's own: it has all permissions."""
        session.user, session.logged_in = User.all_powerful(b""), True
        self._refresh(session)

    def _refresh(self, session: Session) -> None:
        session.authenticated = session.logged_in or (self.default.nopass and self.default.enabled)
        session.limited = not (session.authenticated and session.user.free)

    def log_in(self, session: Session, name: bytes, password: bytes, word: bytes) -> None:
        """Log the client in as ``name``.

        Raise CommandError if the user does not exist or is disabled, or if the password is wrong. ``word`` is the
        command used to log in, for ACL LOG.
        """
        user = self.users.get(name)
        if user is None or not user.knows(password):
            self.log.add("auth", session, word, name, self._changes.now)
            raise CommandError(b"WRONGPASS invalid username-password pair or user is disabled.")
        session.user, session.logged_in = user, True
        self._refresh(session)

    def log_in_by_certificate(self, session: Session, name: bytes, now: int) -> None:
        """Log a client in as the user ``name`` of its certificate, at ``now`` in milliseconds since the epoch.

        If the user does not exist or is disabled, the attempt is added to ACL LOG and the client keeps its user.
        """
        user = self.users.get(name)
        if user is None or not user.enabled:
            self.log.add("tls-cert", session, b"", name, now)
            return
        session.user, session.logged_in = user, True
        self._refresh(session)

    def check(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Raise CommandError if a limited session may not call ``argv``.

        Refusals are added to ACL LOG, except those of clients that must log in first.
        """
        if "no_auth" in command.flags:
            return
        if not session.authenticated:
            raise CommandError(b"NOAUTH Authentication required.")
        denial = session.user.denial(command, argv)
        if denial is None:
            return
        if not session.in_exec:
            session.last_command = command.full_name
        self.log.add(denial.reason, session, denial.name, session.user.name, self._changes.now)
        if session.in_exec:
            raise CommandError(messages.NO_LONGER_ALLOWED[denial.reason])
        if denial.reason == "command":
            raise CommandError(
                b"NOPERM User %b has no permissions to run the '%b' command" % (session.user.name, denial.name)
            )
        no = (
            b"NOPERM No permissions to access a key"
            if denial.reason == "key"
            else b"NOPERM No permissions to access a channel"
        )
        raise CommandError(no)

    def may_call(self, session: Session, command: Command, commands: Iterable[list[bytes]]) -> bool:
        """Return whether a limited session may call all of ``commands``; nothing is logged."""
        return session.authenticated and all(session.user.denial(command, argv) is None for argv in commands)

    # -- users as text ----------------------------------------------------------------------------------------------

    def text(self) -> bytes:
        """Return all users, one per line, in the form of ACL SAVE."""
        return b"".join(user.line() + b"\n" for user in self.sorted())

    def configured(self) -> list[bytes]:
        """Return the lines of a configuration file that recreate the users.

        The list is empty if the users are in an ACL file, or if the only user is an unchanged default user.
        """
        pristine = [User.all_powerful(DEFAULT).line()]
        lines = [user.line() for user in self.sorted()]
        return [] if self.file is not None or lines == pristine else lines

    def load_configured(self, users: Sequence[Sequence[bytes]]) -> None:
        """Load the ``user`` lines of a configuration file, each [name, rule ...].

        Raise UsersError, without any change, if one is invalid.
        """
        found: dict[bytes, User] = {}
        for name, *rules in users:
            try:
                _add(found, name, rules)
            except UsersError as error:
                raise UsersError(f"user {name.decode(errors='replace')}: {error}") from None
        self._accept(found)

    def load(self, text: bytes, file: bytes) -> None:
        """Replace all users with those in ``text``, which was read from ``file``: a ``user`` line for each.

        Close the connections of deleted users, and of subscribers that lose access to a channel. Raise UsersError,
        without any change, if a line is invalid.
        """
        found: dict[bytes, User] = {}
        for number, line in enumerate(text.split(b"\n"), 1):
            words = line.split()
            if not words or words[0][:1] == b"#":
                continue
            try:
                if words[0] != b"user" or len(words) < 2:
                    raise UsersError("should start with user keyword followed by the username")
                _add(found, words[1], words[2:])
            except UsersError as error:
                where = f"{file.decode(errors='replace')}:{number}: "
                raise UsersError(f"{where}{error}; {messages.UNCHANGED.decode()}") from None
        found.setdefault(DEFAULT, User.all_powerful(DEFAULT))
        for deleted in [old for old in self.users if old not in found]:
            self.delete(deleted)
        self._accept(found)

    def _accept(self, users: dict[bytes, User]) -> None:
        for name, new in users.items():
            if name in self.users:
                self._replace(self.users[name], new)
            else:
                self.users[name] = new


def _add(users: dict[bytes, User], name: bytes, rules: Iterable[bytes]) -> None:
    """Add a user with these rules. Raise UsersError if a rule or the name is invalid, or if the name is not new."""
    if name in users:
        raise UsersError(f"Duplicate user '{name.decode(errors='replace')}' found")
    try:
        users[name] = _changed(User(name), rules)
    except CommandError as error:
        raise UsersError(error.text[4:].decode(errors="replace")) from None


def _changed(user: User, rules: Iterable[bytes]) -> User:
    """Apply rules to a new user, and return it. Raise CommandError if its name or a rule is invalid."""
    if b" " in user.name or b"\0" in user.name:
        raise CommandError(messages.USER_NAME)
    ops, open_at = merged(rules)
    if open_at is not None:
        raise CommandError(b"ERR Unmatched parenthesis in acl selector starting at '%b'." % open_at)
    for op in ops:
        try:
            user.apply(op)
        except RuleError as error:
            raise CommandError(messages.rule_refused(op, error.reason)) from None
    return user
