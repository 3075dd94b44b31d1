"""Profiles: named servers in `~/.config/pystreams/profiles.toml`, each with connection options of the connector.

    default = "local"

    [local]
    url = "redis://127.0.0.1:6379"

    [production]
    url = "rediss://streams.example.com:6380"
    user = "reader"
    password = "..."
    "tls.caFile" = "/etc/ssl/streams.pem"

    [production.dashboard]
    changes = false
    mask = ["email", "orders:*:card.number"]

The table `dashboard` of a profile has settings for `pystreams ui`. Messages never show values of options.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pystreams.errors import fail

DEFAULT = "default"
_DASHBOARD = "dashboard"


def path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the profile file, in XDG_CONFIG_HOME or else in `~/.config`."""
    home = environment.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "pystreams" / "profiles.toml"


def read(file: Path, name: str | None) -> dict[str, str] | None:
    """Return the options of the profile `name`, or of the default profile if `name` is None.

    Returns None if the file has no default profile. Raises NO_PROFILE and PROFILES_MALFORMED.
    """
    table = _table(file)
    chosen = name if name is not None else table.get(DEFAULT)
    if chosen is None:
        return None
    profile = table.get(str(chosen))
    if not isinstance(profile, dict):
        known = ", ".join(sorted(key for key, value in table.items() if isinstance(value, dict))) or "none"
        fail("NO_PROFILE", profile=chosen, file=file, known=known)
    return {option: _text(file, option, value) for option, value in profile.items() if option != _DASHBOARD}


def dashboard(file: Path, name: str) -> tuple[bool | None, list[str]]:
    """Return a profile's settings for the dashboard: whether changes are allowed, and the masked fields.

    The first value is None if the profile does not set it. Raises PROFILES_MALFORMED.
    """
    profile = _table(file).get(name)
    table = profile.get(_DASHBOARD, {}) if isinstance(profile, dict) else {}
    if not isinstance(table, dict):
        fail("PROFILES_MALFORMED", file=file, reason=f"'{_DASHBOARD}' is not a table")
    changes, masks = table.get("changes"), table.get("mask", [])
    if unknown := table.keys() - {"changes", "mask"}:
        fail("PROFILES_MALFORMED", file=file, reason=f"'{_DASHBOARD}.{min(unknown)}' is unknown")
    if not isinstance(changes, bool | None):
        fail("PROFILES_MALFORMED", file=file, reason=f"'{_DASHBOARD}.changes' is neither true nor false")
    if not isinstance(masks, list) or not all(isinstance(each, str) for each in masks):
        fail("PROFILES_MALFORMED", file=file, reason=f"'{_DASHBOARD}.mask' is not a list of strings")
    return changes, masks


def is_shared(file: Path) -> bool:
    """Return whether users other than the owner have any permission for the file."""
    try:
        return bool(file.stat().st_mode & 0o077)
    except OSError:
        return False


def default(file: Path) -> str | None:
    """Return the name of the default profile; None if the file sets no default."""
    chosen = _table(file).get(DEFAULT)
    return None if chosen is None else str(chosen)


def names(file: Path) -> list[str]:
    """Return the names of the profiles."""
    return sorted(key for key, value in _table(file).items() if isinstance(value, dict))


def _table(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as cause:
        return fail("PROFILES_MALFORMED", file=file, reason=type(cause).__name__)
    except tomllib.TOMLDecodeError as cause:
        return fail("PROFILES_MALFORMED", file=file, reason=f"it is not TOML ({cause})")


def _text(file: Path, option: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    return fail("PROFILES_MALFORMED", file=file, reason=f"'{option}' is neither a string nor a number")
