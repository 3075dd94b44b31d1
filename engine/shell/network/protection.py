"""Protected mode: who may connect while the default user needs no password."""

from __future__ import annotations

from typing import Any

from engine.core.clients.accounts import Accounts
from engine.settings.config import Config


def is_local(peer: Any) -> bool:
    """Whether a client, as its transport names it, is on this machine: over loopback, or over a Unix socket."""
    if not isinstance(peer, tuple):
        return True
    host = str(peer[0]).removeprefix("::ffff:")
    return host.startswith("127.") or host == "::1"


def is_refused(config: Config, accounts: Accounts, peer: Any) -> bool:
    """Whether a new client is sent away: it comes from elsewhere, and nobody would ask it for a password."""
    return config.flag("protected-mode") and accounts.default.nopass and not is_local(peer)
