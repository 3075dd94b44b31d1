"""Protected mode: rejecting remote clients while the default user needs no password."""

from __future__ import annotations

from typing import Any

from engine.core.clients.accounts import Accounts
from engine.settings.config import Config


def is_local(peer: Any) -> bool:
    """Return whether the client with this peer name is on this machine: on loopback, or on a Unix socket."""
    if not isinstance(peer, tuple):
        return True
    host = str(peer[0]).removeprefix("::ffff:")
    return host.startswith("127.") or host == "::1"


def is_refused(config: Config, accounts: Accounts, peer: Any) -> bool:
    """Return whether to reject a new client: it is remote, and could log in without a password."""
    return config.flag("protected-mode") and accounts.default.nopass and not is_local(peer)
