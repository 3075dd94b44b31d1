"""Where a connection's user and password come from: the login itself, a file, or a provider that Python code names.

Owns how a secret is found at the moment when a connection logs in, in whatever process that is: nothing but the name of
the file or of the function travels. Files and providers are asked again for each connection, so a secret may change.
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

_PATIENCE_SECONDS = 30.0  # how long a provider may take


class Provider(Protocol):
    """A source of user and password, like redis-py's credential providers."""

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return the password, or user and password."""
        ...


class _PasswordFile:
    """The password that a file has now: its text without the end of the last line."""

    def __init__(self, username: str | None, path: str) -> None:
        self._username = username
        self._path = path

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = _text(Path(self._path).read_bytes()).rstrip("\r\n")
        if not password:
            raise ValueError("the file is empty")
        return (password,) if self._username is None else (self._username, password)


def _text(secret: bytes) -> str:
    """Return the secret as text. Python's own error would have all of it, and show a byte: this one stands alone."""
    with suppress(UnicodeDecodeError):
        return secret.decode()
    raise UnicodeError("the file is not UTF-8")


class _Checked:
    """A provider whose failures are CREDENTIALS_MISSING, and say where it was asked.

    So is a result that is no login, and no result within half a minute.
    """

    def __init__(self, source: str, provider: Any) -> None:
        self._source = source
        self._provider = provider

    def get_credentials(self) -> Any:
        answer: Future[Any] = Future()
        ask = copy_context().run
        threading.Thread(target=ask, args=(_ask, self._provider, answer), daemon=True).start()
        try:
            return _checked(answer.result(_PATIENCE_SECONDS))
        except Exception as cause:
            late = None if answer.done() else TimeoutError(f"no answer within {_PATIENCE_SECONDS:.0f} seconds")
            raise _missing(self._source, late or cause) from cause


def _ask(provider: Any, answer: Future[Any]) -> None:
    try:
        answer.set_result(provider.get_credentials())
    except BaseException as problem:  # noqa: BLE001 - raised by the caller
        answer.set_exception(problem)


def _checked(said: Any) -> Any:
    """Return the login that a provider returned. TypeError, without its text, if it is not a login."""
    if not isinstance(said, tuple | list):
        raise TypeError(f"what get_credentials returned ({type(said).__name__}) is no tuple of user and password")
    kinds = ", ".join(type(word).__name__ for word in said)
    if len(said) not in (1, 2) or not all(isinstance(word, str | bytes) for word in said):
        raise TypeError(f"what get_credentials returned (a tuple of {kinds or 'nothing'}) is no user and password")
    return said


def provider_of(login: Login) -> Provider | None:
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
    """Return the result of the function that `module:function` names. It is called once per process."""
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
