"""Errors that a user can act on: an exception, and tables of conditions. A condition has an ID, a text and advice.

A package has one table, `CONDITIONS`, and raises its errors through it:

    CONDITIONS = Conditions({"NOT_A_STREAM": Condition(StreamError, "The key '{stream}' ...", "Name a stream ...")})
    raise CONDITIONS.error("NOT_A_STREAM", stream="s")

A condition's ID never changes. Its text states what happened and where; its advice states what to do next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn


class PystreamsError(Exception):
    """Base class of errors. `condition` is the ID of the error's condition; `parameters` fill the braces of its text.

    `headline`: exception that Python prints before the error, in place of its cause (`spark_streams.errors`).
    """

    def __init__(self, message: str, condition: str = "", parameters: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.condition = condition
        self.parameters = parameters or {}
        self.headline: BaseException | None = None

    @property
    def __cause__(self) -> BaseException | None:
        return self.headline or super().__cause__

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:  # Spark removes causes when it shortens a traceback
        vars(BaseException)["__cause__"].__set__(self, cause)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.condition, self.parameters)


class InvalidTextError(ValueError):
    """An invalid text. `expected` completes "Option 'x' is 'y', but ..."; `shown` replaces a secret text."""

    def __init__(self, expected: str, shown: str | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.shown = shown


@dataclass(frozen=True)
class Condition:
    """One condition: the exception to raise, its text with parameters in braces, and advice."""

    error: type[PystreamsError]
    text: str
    advice: str


class Conditions(dict[str, Condition]):
    """Conditions by their IDs."""

    def error(self, condition: str, **parameters: object) -> PystreamsError:
        """Return the error of this condition, for `raise ... from`. The parameters fill the braces of its text and
        advice.
        """
        entry = self[condition]
        texts = {name: str(value) for name, value in parameters.items()}
        message = f"[{condition}] {entry.text.format(**texts)} {entry.advice.format(**texts)}"
        return entry.error(message, condition, texts)

    def fail(self, condition: str, **parameters: object) -> NoReturn:
        """Raise the error of this condition."""
        raise self.error(condition, **parameters)
