"""The server that a command uses: its address, and a connection to it.

The server is the first of these that is set: --url or --embedded, --profile, PYSTREAMS_URL, PYSTREAMS_PROFILE, the
default profile, redis://127.0.0.1:6379. The first connection is tried for two and a half seconds, later calls for
`retryTimeoutMs`, by default 15 seconds; a reply is awaited for 15 seconds. `--timeout` sets all three.

Profiles are named servers in `~/.config/pystreams/profiles.toml`, each with connection options of the connector:

    default = "local"

    [local]
    url = "redis://127.0.0.1:6379"

    [production]
    url = "rediss://streams.example.com:6380"
    user = "reader"
    password = "..."
    "tls.caFile" = "/etc/ssl/streams.pem"

Messages never show values of options. Addresses,
logins and retries belong to `streamclient`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pystreams.errors import fail
from spark_streams.config import options
from spark_streams.embedded import launcher
from streamclient.config.address import Address, Endpoint, parse
from streamclient.config.connect import ConnectOptions
from streamclient.config.option import options_of
from streamclient.connection import Connection
from streamclient.refusals import Budget

DEFAULT = "default"


def profiles_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the profile file, in XDG_CONFIG_HOME or else in `~/.config`."""
    home = environment.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "pystreams" / "profiles.toml"


def read_profile(file: Path, name: str | None) -> dict[str, str] | None:
    """Return the options of the profile `name`, or of the default profile if `name` is None.

    Returns None if the file has no default profile. Raises NO_PROFILE and PROFILES_MALFORMED.
    """
    table = _profiles(file)
    chosen = name if name is not None else table.get(DEFAULT)
    if chosen is None:
        return None
    profile = table.get(str(chosen))
    if not isinstance(profile, dict):
        known = ", ".join(sorted(key for key, value in table.items() if isinstance(value, dict))) or "none"
        fail("NO_PROFILE", profile=chosen, file=file, known=known)
    return {option: _option_text(file, option, value) for option, value in profile.items()}


def is_shared(file: Path) -> bool:
    """Return whether users other than the owner have any permission for the file."""
    try:
        return bool(file.stat().st_mode & 0o077)
    except OSError:
        return False


def default_profile(file: Path) -> str | None:
    """Return the name of the default profile; None if the file sets no default."""
    chosen = _profiles(file).get(DEFAULT)
    return None if chosen is None else str(chosen)


def _profiles(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as cause:
        return fail("PROFILES_MALFORMED", file=file, reason=type(cause).__name__)
    except tomllib.TOMLDecodeError as cause:
        return fail("PROFILES_MALFORMED", file=file, reason=f"it is not TOML ({cause})")


def _option_text(file: Path, option: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    return fail("PROFILES_MALFORMED", file=file, reason=f"'{option}' is neither a string nor a number")


LOCAL = "redis://127.0.0.1:6379"
_FIRST_MS = 2500  # time for which the first connection is tried
_ANSWER_SECONDS = 15.0  # timeout of a later reply
_RETRY = "retrytimeoutms"


@dataclass(frozen=True)
class Wanted:
    """The user's choice of a server. `given`: connection options of the connector, by name.

    `seconds`: maximum time to wait for the server; None for the defaults.
    """

    url: str | None = None
    profile: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    #: Whether to use the embedded engine of a running driver.
    embedded: bool = False
    seconds: float | None = None


def shows_secret(wanted: Wanted) -> bool:
    """Return whether the arguments for the server contain a password, which the process list shows to all users."""
    given = {name.lower() for name in wanted.given}
    if any(each.secret and each.name.lower() in given for each in options_of(ConnectOptions).values()):
        return True
    try:
        return wanted.url is not None and parse(wanted.url).login.password is not None
    except ValueError:
        return False  # the connection will report the error


def settings(wanted: Wanted, environment: Mapping[str, str], file: Path) -> dict[str, str]:
    """Return the connector's options for the chosen server.

    Raises NO_PROFILE, PROFILES_MALFORMED, NO_EMBEDDED and MANY_EMBEDDED.
    """
    if wanted.embedded:
        return {"url": _embedded(), **wanted.given}
    if wanted.url is not None:
        return {"url": wanted.url, **wanted.given}
    name = wanted.profile
    if name is None and environment.get("PYSTREAMS_URL"):
        return {"url": environment["PYSTREAMS_URL"], **wanted.given}
    profile = read_profile(file, profile_of(wanted, environment, file))
    return {"url": LOCAL, **(profile or {}), **wanted.given}


def profile_of(wanted: Wanted, environment: Mapping[str, str], file: Path) -> str | None:
    """Return the name of the chosen profile, or None if the server was chosen in another way."""
    if wanted.profile is not None:
        return wanted.profile
    if wanted.embedded or wanted.url is not None or environment.get("PYSTREAMS_URL"):
        return None
    return environment.get("PYSTREAMS_PROFILE") or default_profile(file)


def _embedded() -> str:
    """Return the URL of this user's only embedded engine. Raises NO_EMBEDDED and MANY_EMBEDDED."""
    running = launcher.running()
    if not running:
        fail("NO_EMBEDDED")
    if len(running) > 1:
        fail("MANY_EMBEDDED", count=len(running), engines="".join(f"\n  {each}" for each in running))
    return running[0].url


def address_of(wanted: Wanted, needs: str, environment: Mapping[str, str] = os.environ) -> Address:
    """Return the server's address. `needs`: ACL rules that the command requires, for error messages."""
    return _address(settings(wanted, environment, profiles_file(environment)), needs)


def _address(chosen: Mapping[str, str], needs: str) -> Address:
    address = options.server(chosen)
    assert isinstance(address, Address)  # a URL is always set
    return replace(address, needs=needs)


def connect(
    wanted: Wanted,
    needs: str,
    environment: Mapping[str, str] = os.environ,
    answer_seconds: float = _ANSWER_SECONDS,
    on_wait: Callable[[Endpoint], None] | None = None,
) -> Connection:
    """Return a connection to the server. `needs`: as for `address_of`. `answer_seconds`: default timeout of a reply.

    `on_wait`: see `Login`.
    """
    chosen = settings(wanted, environment, profiles_file(environment))
    address = replace(_address(chosen, needs), answer_seconds=wanted.seconds or answer_seconds, on_wait=on_wait)
    if wanted.seconds is not None:
        address = replace(address, retry_ms=round(wanted.seconds * 1000))
        first = address
    elif any(name.lower() == _RETRY for name in chosen):
        first = address
    else:
        first = replace(address, retry_ms=_FIRST_MS, answer_seconds=_FIRST_MS / 1000)
    connection = Connection(first, Budget(first.retry_ms))
    connection.serve(address)
    return connection
