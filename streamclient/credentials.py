"""Source of a connection's user and password: the login itself, a file, or a provider in Python.

Owns the lookup of a secret when a connection logs in. The process that connects reads the file or calls the provider,
since workers receive only their names. This is repeated for each connection, so a secret may change.
"""

from __future__ import annotations

import functools
import importlib
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

from streamclient.config.address import Login
from streamclient.errors import PystreamsError, error

_TIMEOUT_SECONDS = 30.0  # timeout of a provider


#: Returns the password, or user and password. Raises CREDENTIALS_MISSING.
Provider = Callable[[], Sequence[str]]


def provider_of(login: Login) -> Provider | None:
    """Return the provider of user and password for a login; None if the login has neither a file nor a provider.

    Raises CREDENTIALS_MISSING.
    """
    if login.password_file is not None:
        read = partial(_in_file, login.username, login.password_file)
        return partial(_asked, f"the file {login.password_file}", read)
    if login.provider is not None:
        return partial(_asked, login.provider, partial(_of_provider, _provider(login.provider)))
    return None


def _in_file(username: str | None, path: str) -> Sequence[str]:
    """Return the current password in a file: its text without line breaks at the end."""
    password: str | None = None
    with suppress(UnicodeDecodeError):  # the text of this error has bytes of the file
        password = Path(path).read_bytes().decode().rstrip("\r\n")
    if password is None:
        raise UnicodeError("the file is not UTF-8")
    if not password:
        raise ValueError("the file is empty")
    return (password,) if username is None else (username, password)


def _of_provider(provider: Any) -> Sequence[str]:
    """Return a provider's result. Raises TypeError if it is not a login; the error does not contain the result."""
    values = provider.get_credentials()
    words: Sequence[str] = values if isinstance(values, tuple | list) else ()
    if len(words) not in (1, 2) or not all(isinstance(word, str | bytes) for word in words):
        raise TypeError(f"the result of get_credentials ({type(values).__name__}) is not a tuple of user and password")
    return words


def _asked(source: str, ask: Provider) -> Sequence[str]:
    """Return the result of `ask`. Raises its failures, and no result after half a minute, as CREDENTIALS_MISSING."""
    answer: Future[Sequence[str]] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as problem:  # noqa: BLE001 - raised by the caller
            answer.set_exception(problem)

    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    try:
        return answer.result(_TIMEOUT_SECONDS)
    except Exception as cause:
        late = None if answer.done() else TimeoutError(f"no answer within {_TIMEOUT_SECONDS:.0f} seconds")
        raise _missing(source, late or cause) from cause


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
