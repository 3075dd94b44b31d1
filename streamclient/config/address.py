"""Server addresses: the forms of a URL, and credentials.

An `Address` is sent to the workers within pickled readers, writers and partitions. Passwords are never shown: messages
and logs use `Address.shown`. Opens no connections.

    redis://user:password@host:port/database        one server
    rediss://...                                    the same over TLS
    unix://user:password@/path/of/socket?db=0       a Unix socket
    redis+sentinel://host:port,host:port/service/0  the master that Sentinels name (rediss+sentinel:// for TLS)
    redis+cluster://host:port,host:port             a cluster, found through any of these (rediss+cluster:// for TLS)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from streamwire.errors import InvalidTextError

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
RETRY_MS = 15_000  # default of the option retryTimeoutMs

Kind = Literal["single", "sentinel", "cluster"]
_PORT, _SENTINEL_PORT = 6379, 26379  # default ports
_HIDDEN = "(not shown)"


@dataclass(frozen=True, slots=True)
class Embedded:
    """The embedded engine, instead of an address. It stores data in `directory`, or in memory if this is None."""

    directory: str | None = None


@dataclass(frozen=True)
class Tls:
    """TLS settings. Files are given as paths. Without `ca_file`, the system's certificates are trusted.

    `verify`: "full" checks the server's certificate and host name; "ca" checks only the certificate; "none" disables
    the checks.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: Literal["full", "ca", "none"] = "full"


@dataclass(frozen=True)
class Endpoint:
    """Target of a socket: a host and a port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.path or f"{host}:{self.port}"


@dataclass(frozen=True)
class Login:
    """Authentication, database and TLS settings of a connection. `tls` is None for a plain connection.

    `password_file`: file with the password, on the machine that connects. `provider`: function, as `module:function`,
    that returns a credential provider of redis-py. `seconds`: timeout of the connection, and of its TLS handshake.
    `answer_seconds`: timeout of a reply; a minute if None. `on_wait`: function that is called with the server if a
    reply takes longer than two seconds.
    """

    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    database: int = 0
    tls: Tls | None = field(default=None, repr=False)
    seconds: float = 10.0
    password_file: str | None = None
    provider: str | None = None
    answer_seconds: float | None = None
    on_wait: Callable[[Endpoint], None] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Credentials:
    """Users, passwords and TLS settings from options and the environment, in addition to those in the URL."""

    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)
    tls: Tls = field(default=Tls(), repr=False)
    password_file: str | None = None
    provider: str | None = None


@dataclass(frozen=True)
class Address:
    """A server's URL and how to connect. `driver`: driver process of an embedded engine; empty for other servers.

    Addresses are equal if they can share a connection.
    """

    url: str = field(repr=False)
    driver: str = ""
    credentials: Credentials = Credentials()
    #: Milliseconds for which a failed connection, or a server that is not ready, is retried.
    retry_ms: int = field(default=RETRY_MS, compare=False)
    #: The ACL rules (ACL SETUSER) that the address's user needs, for error messages.
    needs: str = field(default="", repr=False, compare=False)

    #: Timeout of a reply in seconds; None for a minute.
    answer_seconds: float | None = field(default=None, compare=False)
    #: See `Login`.
    on_wait: Callable[[Endpoint], None] | None = field(default=None, repr=False, compare=False)

    @property
    def shown(self) -> str:
        """The URL without user, password and parameters."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return SplitResult(parts.scheme, host, parts.path, "", "").geturl()

    @property
    def kind(self) -> Kind:
        scheme = urlsplit(self.url).scheme.rpartition("+")[2]
        return "cluster" if scheme == "cluster" else "sentinel" if scheme == "sentinel" else "single"

    @property
    def encrypted(self) -> bool:
        return urlsplit(self.url).scheme.startswith("rediss")

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The server, or the Sentinels or cluster nodes in the URL."""
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            return (Endpoint(path=unquote(parts.path)),)
        port = _SENTINEL_PORT if self.kind == "sentinel" else _PORT
        return tuple(_endpoint(text, port) for text in parts.netloc.rpartition("@")[2].split(","))

    @property
    def service(self) -> str:
        """Name of the master in Sentinel's configuration."""
        return unquote(urlsplit(self.url).path.strip("/").split("/")[0])

    @property
    def login(self) -> Login:
        parts = urlsplit(self.url)
        query = dict(parse_qsl(parts.query))
        user, _, password = parts.netloc.rpartition("@")[0].partition(":")
        given = self.credentials
        return Login(
            username=given.username or unquote(user) or query.get("username") or None,
            password=given.password or unquote(password) or query.get("password") or None,
            database=_database(parts, query, self.kind),
            tls=given.tls if self.encrypted else None,
            seconds=self._connect_seconds,
            password_file=given.password_file,
            provider=given.provider,
            answer_seconds=self.answer_seconds,
            on_wait=self.on_wait,
        )

    @property
    def sentinel_login(self) -> Login:
        given = self.credentials
        tls = given.tls if self.encrypted else None
        user, password = given.sentinel_username, given.sentinel_password
        seconds = self._connect_seconds
        return Login(user, password, 0, tls, seconds, answer_seconds=self.answer_seconds, on_wait=self.on_wait)

    @property
    def _connect_seconds(self) -> float:
        """Timeout of one attempt to connect: half the time for retries, but at least one and at most ten seconds."""
        return min(Login.seconds, max(1.0, self.retry_ms / 2000))

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def __str__(self) -> str:
        return f"the embedded engine ({self.shown})" if self.driver else self.shown


def parse(url: str) -> Address:
    """Return the address of a URL.

    Raises InvalidTextError, which shows at most the URL's scheme, since the rest may contain a password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidTextError("it is not a URL", _HIDDEN) from None
    if "://" not in url:
        raise InvalidTextError("it has no scheme: write redis:// before host and port", _HIDDEN)
    shown = f"{parts.scheme}://..."
    if parts.scheme not in SCHEMES:
        raise InvalidTextError(f"its scheme must be one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}", shown)
    address = Address(url)
    if parts.scheme == "unix":
        if not parts.path:
            raise InvalidTextError("it must name the path of a socket", shown)
    else:
        _check_hosts(address, shown)
    if address.kind == "sentinel" and not address.service:
        raise InvalidTextError("it must name the service: redis+sentinel://host:port/service", shown)
    if any(name not in ("db", "username", "password") for name, _ in parse_qsl(parts.query)):
        raise InvalidTextError("only db, username and password may follow '?'", shown)
    try:
        _database(parts, dict(parse_qsl(parts.query)), address.kind)
    except ValueError:
        raise InvalidTextError("its database must be a number", shown) from None
    return address


def _check_hosts(address: Address, shown: str) -> None:
    try:
        endpoints = address.endpoints
    except ValueError:
        raise InvalidTextError("it is not a URL", _HIDDEN) from None
    if len(endpoints) > 1 and address.kind == "single":
        raise InvalidTextError("only redis+sentinel:// and redis+cluster:// take several hosts", shown)
    if not all(endpoint.host for endpoint in endpoints):
        raise InvalidTextError("it must name a host", shown)
    if not all(0 < endpoint.port < 65536 for endpoint in endpoints):
        raise InvalidTextError("its port must be 1 to 65535", shown)


def _endpoint(text: str, port: int) -> Endpoint:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return Endpoint(host, int(rest[1:]) if rest else port)
    host, colon, digits = text.partition(":")
    return Endpoint(unquote(host), int(digits) if colon else port)


def _database(parts: SplitResult, query: Mapping[str, str], kind: Kind) -> int:
    if "db" in query:
        return int(query["db"])
    if parts.scheme == "unix" or kind == "cluster":
        return 0
    words = parts.path.strip("/").split("/")
    text = (words[1] if len(words) > 1 else "") if kind == "sentinel" else words[0]
    return int(text) if text else 0
