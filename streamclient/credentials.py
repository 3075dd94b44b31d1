"""Source of a connection's user and password: the login itself, a file, or a provider in Python.

Owns the lookup of a secret when a connection logs in. The process that connects reads the file or calls the provider,
since workers receive only their names. This is repeated for each connection, so a secret may change.
"""

from __future__ import annotations

import functools
import importlib
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any, Protocol

from streamclient.config.address import Login
from streamclient.errors import PystreamsError, error

_TIMEOUT_SECONDS = 30.0  # timeout of a provider


class Provider(Protocol):
    """A source of user and password, like redis-py's credential providers."""

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return the password, or user and password."""
        ...


class _PasswordFile:
    """The current password in a file: its text without line breaks at the end."""

    def __init__(self, username: str | None, path: str) -> None:
        self._username = username
        self._path = path

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = _text(Path(self._path).read_bytes()).rstrip("\r\n")
        if not password:
            raise ValueError("the file is empty")
        return (password,) if self._username is None else (self._username, password)


def _text(secret: bytes) -> str:
    """Return the secret as text. Raises UnicodeError without its cause, which would contain the secret."""
    with suppress(UnicodeDecodeError):
        return secret.decode()
    raise UnicodeError("the file is not UTF-8")


class _Checked:
    """A provider that raises its failures as CREDENTIALS_MISSING, with the host.

    Invalid results, and no result after half a minute, count as failures.
    """

    def __init__(self, source: str, provider: Any) -> None:
        self._source = source
        self._provider = provider

    def get_credentials(self) -> Any:
        answer: Future[Any] = Future()
        ask = copy_context().run
        threading.Thread(target=ask, args=(_ask, self._provider, answer), daemon=True).start()
        try:
            return _checked(answer.result(_TIMEOUT_SECONDS))
        except Exception as cause:
            late = None if answer.done() else TimeoutError(f"no answer within {_TIMEOUT_SECONDS:.0f} seconds")
            raise _missing(self._source, late or cause) from cause


def _ask(provider: Any, answer: Future[Any]) -> None:
    try:
        answer.set_result(provider.get_credentials())
    except BaseException as problem:  # noqa: BLE001 - raised by the caller
        answer.set_exception(problem)


def _checked(values: Any) -> Any:
    """Return a provider's result. Raises TypeError if it is not a login; the error does not contain the result."""
    if not isinstance(values, tuple | list):
        raise TypeError(f"the result of get_credentials ({type(values).__name__}) is not a tuple of user and password")
    kinds = ", ".join(type(word).__name__ for word in values)
    if len(values) not in (1, 2) or not all(isinstance(word, str | bytes) for word in values):
        raise TypeError(f"the result of get_credentials (a tuple of {kinds or 'nothing'}) is not user and password")
    return values


def provider_of(login: Login) -> Provider | None:
    """Return the provider of user and password for a login; None if the login has neither a file nor a provider.

    Raises CREDENTIALS_MISSING. The provider's `get_credentials` raises the same error.
    """
    if login.password_file is not None:
        return _Checked(f"the file {login.password_file}", _PasswordFile(login.username, login.password_file))
    if login.provider is not None:
        return _Checked(login.provider, _provider(login.provider))
    return None


@functools.cache
def _provider(name: str) -> Any:
    """Return the result of the function that `module:function` names. It is called once per process."""
    module, _, function = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), function)()
        if not callable(getattr(made, "get_credentials", None)):
            raise TypeError(f"its result ({type(made).__name__}) has no method get_credentials")
    except Exception as cause:
        raise _missing(name, cause) from cause
    return made


def _missing(source: str, cause: Exception) -> PystreamsError:
    reason = f"{type(cause).__name__}: {cause}".rstrip(". ")
    return error("CREDENTIALS_MISSING", source=source, host=socket.gethostname(), reason=reason)
