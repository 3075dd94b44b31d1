"""Users of the ACL: ``user`` lines of the configuration, or the file that ``aclfile`` names, where changes are saved.

The file is replaced atomically: a reader during a save sees the old content. While the default user needs no password,
protected mode rejects remote clients.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.core.clients.accounts import Accounts, AclFile, UsersError
from engine.settings.config import Config
from engine.settings.kinds import ConfigError
from engine.shell.observation.log_lines import LOG


class UsersFile:
    """The file that ``aclfile`` names."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self._path = Path(os.fsdecode(name))

    def read(self) -> bytes:
        """Return the file's content."""
        return self._path.read_bytes()

    def write(self, text: bytes) -> None:
        """Replace the file's content atomically."""
        try:
            self._write(text)
        except OSError as error:
            LOG.warning("cannot write the users to %s: %s", self._path, error)
            raise

    def _write(self, text: bytes) -> None:
        # mkstemp makes a file that only its owner may read.
        number, name = tempfile.mkstemp(prefix=f"{self._path.name}.", suffix=".tmp", dir=self._path.parent)
        try:
            with os.fdopen(number, "wb") as new:
                new.write(text)
                new.flush()
                os.fsync(new.fileno())
            Path(name).replace(self._path)
        except OSError:
            with suppress(OSError):
                Path(name).unlink()
            raise


def start_accounts(config: Config, accounts: Accounts) -> None:
    """Load the users from the configuration or from the file. Raises ConfigError on failure."""
    config.shown_users = accounts.configured
    name = config.text("aclfile")
    if name and config.users:
        raise ConfigError("users are declared in the configuration and in an aclfile: choose one of the two")
    try:
        accounts.load_configured(config.users)
        if name:
            accounts.file = UsersFile(name)
            _load(accounts, accounts.file)
    except UsersError as error:
        raise ConfigError(str(error)) from None


def reload_accounts(accounts: Accounts) -> None:
    """Reload the users from ``aclfile``, if it is set, as ACL LOAD does.

    On failure, raise ConfigError and leave the users unchanged.
    """
    if accounts.file is None:
        return
    try:
        _load(accounts, accounts.file)
    except UsersError as error:
        raise ConfigError(str(error)) from None


def _load(accounts: Accounts, file: AclFile) -> None:
    try:
        text = file.read()
    except OSError as error:
        shown = os.fsdecode(file.name)
        raise ConfigError(f"cannot read the aclfile {shown}: {error.strerror}") from None
    accounts.load(text, file.name)


def is_local(peer: Any) -> bool:
    """Return whether the client with this peer name is on this machine: on loopback, or on a Unix socket."""
    if not isinstance(peer, tuple):
        return True
    host = str(peer[0]).removeprefix("::ffff:")
    return host.startswith("127.") or host == "::1"


def is_refused(config: Config, accounts: Accounts, peer: Any) -> bool:
    """Return whether to reject a new client: it is remote, and could log in without a password."""
    return config.flag("protected-mode") and accounts.default.nopass and not is_local(peer)
