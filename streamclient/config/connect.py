"""Options of a connection, and the server that they or the driver's environment name. Opens no connections."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from streamclient.config import address
from streamclient.config.address import Address, Credentials, Embedded, Login, Tls
from streamclient.config.option import TEXT, Kind, check_exclusive, choice, duration, option, parsed, refuse
from streamwire.errors import InvalidTextError

#: Names of environment variables.
URL, USER, PASSWORD = "PYSTREAMS_URL", "PYSTREAMS_USER", "PYSTREAMS_PASSWORD"


def _function(text: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", text.strip()):
        raise InvalidTextError("it must be a module and a function in it, as in 'company.secrets:redis_credentials'")
    return text.strip()


@dataclass(frozen=True, kw_only=True)
class ConnectOptions:
    """Connection, for reads and writes."""

    url: Address | None = option(
        "url",
        Kind(address.parse),
        None,
        "Server address: `redis://`, `rediss://` (TLS), `unix://`, `redis+sentinel://` or `redis+cluster://`. "
        "By default, the environment variable `PYSTREAMS_URL` or, if it is not set, the embedded engine.",
    )
    embedded_dir: str | None = option(
        "embedded.dir",
        TEXT,
        None,
        "Data directory of the embedded engine: an absolute path, or a name below `PYSTREAMS_HOME` (by "
        "default `pystreams` in the user's state directory). Without it, data is in memory only.",
    )
    user: str | None = option(
        "user",
        TEXT,
        None,
        "ACL user. Overrides the user in the URL; by default the environment variable `PYSTREAMS_USER`.",
    )
    password: str | None = option(
        "password",
        TEXT,
        None,
        "Password. Overrides the password in the URL; by default the environment variable `PYSTREAMS_PASSWORD`.",
        secret=True,
    )
    password_file: str | None = option(
        "passwordFile",
        TEXT,
        None,
        "File with the password, in place of `password`, on every machine that runs tasks. It is read for each "
        "connection, so the password may change.",
    )
    credential_provider: str | None = option(
        "credentialProvider",
        Kind(_function),
        None,
        "Python function `module:function`, in place of `user` and `password`, that returns a credential "
        "provider of redis-py. The provider is called for each connection, and every five minutes while the "
        "connection is in use.",
    )
    sentinel_user: str | None = option(
        "sentinelUser", TEXT, None, "ACL user at the Sentinels, which have their own users."
    )
    sentinel_password: str | None = option("sentinelPassword", TEXT, None, "Password at the Sentinels.", secret=True)
    tls_ca_file: str | None = option(
        "tls.caFile",
        TEXT,
        None,
        "File with the CA certificates to trust. Without it, the system's CAs are trusted.",
    )
    tls_cert_file: str | None = option("tls.certFile", TEXT, None, "File with the client certificate.")
    tls_key_file: str | None = option("tls.keyFile", TEXT, None, "File with the client certificate's private key.")
    tls_key_password: str | None = option("tls.keyPassword", TEXT, None, "Password of the private key.", secret=True)
    tls_verify: Literal["full", "ca", "none"] = option(
        "tls.verify",
        choice("full", "ca", "none"),
        "full",
        "Checks of the server's certificate: `full` (CA and host name), `ca` (only CA) or `none`.",
    )
    retry_ms: int = option(
        "retryTimeoutMs",
        duration(),
        address.RETRY_MS,
        "Retry time when a connection breaks or the server is not ready. It also applies to the first connection, so "
        "a query can start during a failover. Set it longer than a failover takes.",
    )

    def _check_one_secret(self, in_url: Login) -> None:
        """Refuse passwords from two sources, since one would be silently ignored."""
        check_exclusive(self, "password", "password_file", "credential_provider")
        check_exclusive(self, "user", "credential_provider")
        for name in ("password_file", "credential_provider"):
            if getattr(self, name) is not None and in_url.password is not None:
                refuse(self, name, "the url has a password: remove one of them")
        if self.credential_provider is not None and in_url.username is not None:
            refuse(self, "credential_provider", "the url has a user, and the provider returns one: remove one of them")

    def of_environment(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the options `url`, `user` and `password` that the environment sets and these options do not."""
        url, found = self.url, {}
        if url is None and environment.get(URL):
            url = parsed(URL, address.parse, environment[URL])
            found["url"] = environment[URL]
        if url is None or self.credential_provider is not None:
            return found
        if environment.get(USER) and not self.user and not url.login.username:
            found["user"] = environment[USER]
        has_password = self.password or self.password_file or url.login.password
        if environment.get(PASSWORD) and not has_password:
            found["password"] = environment[PASSWORD]
        return found

    def server(self, environment: Mapping[str, str] = os.environ) -> Address | Embedded:
        """Return the server's address, or the embedded engine if neither the options nor the environment name a server.

        The environment is read here, on the driver, because a worker's environment may differ.
        """
        found = self.of_environment(environment)
        url = self.url
        if "url" in found:
            url = address.parse(found["url"])
        for name in ("tls_ca_file", "tls_cert_file", "tls_key_file", "tls_key_password"):
            if getattr(self, name) is not None and (url is None or not url.encrypted):
                refuse(self, name, "TLS needs a url that begins with rediss")
        if url is None:
            return Embedded(self.embedded_dir)
        if self.embedded_dir is not None:
            refuse(self, "embedded_dir", f"it applies only to the embedded engine, and a url (option or {URL}) is set")
        self._check_one_secret(url.login)
        credentials = Credentials(
            self.user or found.get("user"),
            self.password or found.get("password"),
            self.sentinel_user,
            self.sentinel_password,
            Tls(self.tls_ca_file, self.tls_cert_file, self.tls_key_file, self.tls_key_password, self.tls_verify),
            self.password_file,
            self.credential_provider,
        )
        return replace(url, credentials=credentials, retry_ms=self.retry_ms)
