"""Headline of an error: the connector's message before any traceback, where a user of Spark looks first.

Spark shows an error of a Python data source as Python prints it: first the causes, then the traceback, and the message
last. A cause without a traceback is printed as one line. So an error that leaves the connector gets such a cause, which
repeats its message. Python prints this cause first and the error itself last. By default, Spark shortens tracebacks and
removes causes. A headline survives this, since `PystreamsError` stores it as an attribute.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from spark_streams.errors import PystreamsError, error
from streamclient.errors import LinkError

Method = TypeVar("Method", bound=Callable[..., Any])

_BROKEN = (LinkError, ConnectionError)


class Headline(Exception):  # noqa: N818 - it is a line of text
    """An error's message, to be printed first. Python shows it as `pystreams: message`."""


Headline.__module__, Headline.__qualname__ = "builtins", "pystreams"


def headed(method: Method) -> Method:
    """Return the method with headlines on its errors, including errors that a generator raises while it is iterated."""

    @functools.wraps(method)
    def called(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except (PystreamsError, *_BROKEN) as problem:
            _raise(problem)

    @functools.wraps(method)
    def iterated(*args: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from method(*args, **named)
        except (PystreamsError, *_BROKEN) as problem:
            _raise(problem)

    return iterated if inspect.isgeneratorfunction(method) else called  # type: ignore[return-value]


def _raise(problem: BaseException) -> None:
    if not isinstance(problem, PystreamsError):
        problem = error("CONNECTION_BROKEN", reason=f"{problem}".rstrip(".") or type(problem).__name__)
    problem.headline = Headline(str(problem))
    raise problem
