"""Where a connection's user and password come from: the login itself, a file, or a provider that Python code names.

Owns how a secret is found at the moment when a connection logs in, in whatever process that is: nothing but the name of
the file or of the function travels. Files and providers are asked again for each connection, so a secret may change.
"""

from __future__ import annotations

import functools
import importlib
import socket
from pathlib import Path
from typing import Any

from redis.credentials import CredentialProvider

from spark_streams.config.address import Login
from spark_streams.errors import PystreamsError, error


class _PasswordFile(CredentialProvider):
    """The password that a file has now: its text without the end of the last line."""

    def __init__(self, username: str | None, path: str) -> None:
        self._username = username
        self._path = path

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = Path(self._path).read_text(encoding="utf-8").rstrip("\r\n")
        if not password:
            raise ValueError("the file is empty")
        return (password,) if self._username is None else (self._username, password)


class _Checked(CredentialProvider):
    """A provider whose failures are CREDENTIALS_MISSING, and say where it was asked."""

    def __init__(self, source: str, provider: Any) -> None:
        self._source = source
        self._provider = provider

    def get_credentials(self) -> Any:
        try:
            return self._provider.get_credentials()
        except Exception as cause:
            raise _missing(self._source, cause) from cause


def provider_of(login: Login) -> CredentialProvider | None:
    """What says user and password when a connection logs in; None where the login has them.

    Raises CREDENTIALS_MISSING, as its `get_credentials` does.
    """
    if login.password_file is not None:
        return _Checked(f"the file {login.password_file}", _PasswordFile(login.username, login.password_file))
    if login.provider is not None:
        return _Checked(login.provider, _provider(login.provider))
    return None


@functools.cache
def _provider(name: str) -> Any:
    """What the function gives that `module:function` names. It is called once in each process."""
    module, _, function = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), function)()
        if not callable(getattr(made, "get_credentials", None)):
            raise TypeError(f"what it returns ({type(made).__name__}) has no method get_credentials")
    except Exception as cause:
        raise _missing(name, cause) from cause
    return made


def _missing(source: str, cause: Exception) -> PystreamsError:
    reason = f"{type(cause).__name__}: {cause}".rstrip(". ")
    return error("CREDENTIALS_MISSING", source=source, host=socket.gethostname(), reason=reason)
