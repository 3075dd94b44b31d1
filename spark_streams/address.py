"""Where a server is: the URL a user gives, kept so that its password is never shown.

Owns the choice among the option `url`, the environment variable PYSTREAMS_URL and the embedded engine. Opens nothing.
An `Address` travels to the workers inside pickled readers, writers and partitions; everything that is printed, raised
or logged shows `Address.shown`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from spark_streams.errors import fail

VARIABLE = "PYSTREAMS_URL"
SCHEMES = ("redis", "rediss", "unix")


@dataclass(frozen=True)
class Address:
    """A server's URL. `driver` is set for the embedded engine: the identity of the driver process it belongs to."""

    url: str = field(repr=False)
    driver: str = ""

    @property
    def shown(self) -> str:
        """The URL without user, password and parameters."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return SplitResult(parts.scheme, host, parts.path, "", "").geturl()

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def __str__(self) -> str:
        return self.shown


def given(option: str | None, environment: Mapping[str, str] = os.environ) -> Address | None:
    """The address that the option or the environment names; None where the embedded engine is meant."""
    for name, url in (("url", option), (VARIABLE, environment.get(VARIABLE))):
        if url:
            return parse(url, name)
    return None


def parse(url: str, option: str = "url") -> Address:
    """The address that `url` names; refused with the option's name, and without repeating what may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        fail("INVALID_OPTION", option=option, value="(not shown)", expected="it is not a URL")
    if parts.scheme not in SCHEMES:
        expected = f"its scheme must be one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
        fail("INVALID_OPTION", option=option, value=f"{parts.scheme}://...", expected=expected)
    if parts.scheme == "unix" and not parts.path:
        fail("INVALID_OPTION", option=option, value="unix://", expected="it must name a socket's path")
    if parts.scheme != "unix" and not parts.hostname:
        fail("INVALID_OPTION", option=option, value=f"{parts.scheme}://", expected="it must name a host")
    if port == 0:
        fail("INVALID_OPTION", option=option, value=f"{parts.scheme}://...", expected="its port must not be 0")
    return Address(url)
