"""`ui`: the dashboard of a server, in a browser."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from pystreams.commands.verbs import PERIOD, Run, verb
from pystreams.connect import address_of
from pystreams.errors import fail
from streamclient.config.address import Tls
from streamclient.config.option import parsed

if TYPE_CHECKING:
    from pystreams.dashboard.audit_log import Audit
    from pystreams.dashboard.oidc import Provider
    from pystreams.dashboard.reading import Decoders
    from pystreams.dashboard.run import Certificate

_SHORTEST_TOKEN = 16
_READS = "+ping +time +info +scan +xinfo +xlen +xrange +xrevrange +xpending +memory|usage"


@verb(
    "ui",
    needs=_READS,
    examples=(
        "pystreams ui",
        "pystreams ui --url redis://reader@streams.example.com --port 9000",
        "pystreams ui --allow-changes",
        "pystreams ui --bind 0.0.0.0 --tls-certificate streams.pem --tls-key streams.key",
    ),
)
@click.option(
    "--port",
    default=8379,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 selects a free port.",
)
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Host name that browsers may use. Repeatable.")
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy whose X-Forwarded-For header is trusted. Repeatable.",
)
@click.option(
    "--interval", type=PERIOD, default="2s", show_default=True, help="Minimum time between two samples of a server."
)
@click.option("--allow-changes", is_flag=True, help="Let operators change streams and groups.")
@click.option(
    "--mask",
    "masks",
    multiple=True,
    metavar="[STREAM:]FIELD",
    help="Field whose values are not sent to browsers; * and ? are wildcards. Repeatable.",
)
@click.option(
    "--decode",
    "decodes",
    multiple=True,
    metavar="STREAM=FORMAT:FILE",
    help="Format of a stream's values (avro, protobuf, msgpack, json) and its schema file. Repeatable.",
)
@click.option(
    "--registry",
    envvar="PYSTREAMS_REGISTRY",
    metavar="URL",
    help="Schema registry for values that contain a schema ID.",
)
@click.option(
    "--state",
    metavar="DIRECTORY",
    help="Directory of the audit log, or 'none'.  [default: ~/.local/state/pystreams/dashboard]",
)
@click.option(
    "--tls-certificate", metavar="FILE", help="PEM file with the certificate of the dashboard, which enables HTTPS."
)
@click.option("--tls-key", metavar="FILE", help="PEM file with the key, if the certificate file does not contain it.")
@click.option("--oidc-issuer", metavar="URL", help="Issuer of an OpenID Connect provider to log in with.")
@click.option("--oidc-client", metavar="ID", help="Client ID of the dashboard at the OpenID Connect provider.")
@click.option(
    "--oidc-secret",
    envvar="PYSTREAMS_OIDC_SECRET",
    metavar="TEXT",
    help="Client secret, if required. It is safer in PYSTREAMS_OIDC_SECRET.",
)
@click.option(
    "--oidc-claim", default="roles", show_default=True, metavar="PATH", help="Claim that contains a user's roles."
)
@click.option("--oidc-viewer", default="viewer", show_default=True, metavar="ROLE", help="Role that allows reading.")
@click.option(
    "--oidc-operator", default="operator", show_default=True, metavar="ROLE", help="Role that allows changes."
)
@click.option(
    "--token",
    envvar="PYSTREAMS_DASHBOARD_TOKEN",
    metavar="TEXT",
    help="Login token. It is safer in PYSTREAMS_DASHBOARD_TOKEN, which other users cannot see.",
)
def ui(
    run: Run,
    port: int,
    bind: str,
    hosts: tuple[str, ...],
    proxies: tuple[str, ...],
    interval: int,
    allow_changes: bool,
    masks: tuple[str, ...],
    decodes: tuple[str, ...],
    registry: str | None,
    state: str | None,
    tls_certificate: str | None,
    tls_key: str | None,
    token: str | None,
    **oidc: str | None,
) -> None:
    """Serve the dashboard of a server: streams, groups, pending entries and dead letters in a browser.

    Log in with the URL that is shown at the start, as a user of the server, or with OpenID Connect. Without
    --allow-changes, the dashboard is read-only. Without --bind, it accepts only connections from this machine.
    """
    _check(token, proxies)
    from pystreams.dashboard import run as dashboard  # noqa: PLC0415 - an extra, which other verbs do without
    from pystreams.dashboard.login import Rules  # noqa: PLC0415
    from pystreams.dashboard.reading import Masks  # noqa: PLC0415
    from pystreams.dashboard.sampler import Sampler  # noqa: PLC0415

    pause = max(100, interval) / 1000
    certificate, provider = _certificate(tls_certificate, tls_key), _provider(oidc)
    address, decoders = address_of(run.wanted, f"+echo {_READS}"), _decoders(run, decodes, registry)
    try:
        made = dashboard.listen(bind, port)
    except OSError as cause:
        fail("PORT_UNUSABLE", address=f"{bind}:{port}", reason=cause.strerror or cause)
    with closing(made):
        rules = Rules(
            address,
            token or secrets.token_urlsafe(24),
            allow_changes,
            open_here=made.getsockname()[0] in dashboard.LOOPBACK and not proxies,
            masks=Masks(masks),
            decoders=decoders,
            audit=_audit(state),
        )

        def say(line: str) -> None:
            run.out.line(line)
            run.out.flush()

        dashboard.run(
            rules,
            Sampler(address, pause),
            made,
            say,
            names=hosts,
            proxies=proxies,
            certificate=certificate,
            provider=provider,
        )


def _check(token: str | None, proxies: tuple[str, ...]) -> None:
    """Check the token and the proxies."""
    if token is not None and len(token) < _SHORTEST_TOKEN:
        expected = f"it must have at least {_SHORTEST_TOKEN} characters"
        fail("INVALID_VALUE", name="--token", value="...", expected=expected)
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            expected = "it must be an IP address or a network such as 10.0.0.0/8"
            fail("INVALID_VALUE", name="--trusted-proxy", value=proxy, expected=expected)


def _decoders(run: Run, rules: tuple[str, ...], url: str | None) -> Decoders:
    """Return the decoders of values, by stream."""
    from pystreams.dashboard.reading import Decoders  # noqa: PLC0415 - an extra, which other verbs do without

    if url is None:
        return Decoders(rules)
    from streamclient.formats.registry import Registry  # noqa: PLC0415 - HTTP takes time to import

    tls = Tls(ca_file=run.wanted.given.get("tls.caFile"))
    return Decoders(rules, parsed("--registry", lambda text: Registry.at(text, tls=tls), url))


def _certificate(certificate: str | None, key: str | None) -> Certificate | None:
    """Return the certificate after loading its files once; None if it is not given."""
    if certificate is None:
        if key is not None:
            fail("INVALID_VALUE", name="--tls-key", value=key, expected="it requires --tls-certificate")
        return None
    from pystreams.dashboard.run import Certificate  # noqa: PLC0415 - an extra, which other verbs do without

    found = Certificate(Path(certificate), None if key is None else Path(key))
    try:
        found.load()
    except OSError as cause:
        expected = f"it must be PEM with a matching key without a passphrase ({cause})"
        fail("INVALID_VALUE", name="--tls-certificate", value=certificate, expected=expected)
    return found


def _audit(given: str | None) -> Audit | None:
    """Return the audit log in the state directory; None for 'none'."""
    from pystreams.dashboard import audit_log  # noqa: PLC0415 - an extra, which other verbs do without

    if given == "none":
        return None
    directory = audit_log.default_folder() if given is None else Path(given)
    try:
        return audit_log.Audit(audit_log.prepared(directory) / audit_log.FILE)
    except OSError as cause:
        return fail("STATE_UNUSABLE", directory=directory, reason=cause.strerror or cause)


def _provider(given: Mapping[str, str | None]) -> Provider | None:
    """Return the OpenID Connect provider, or None if its options are not given."""
    issuer, client = given["oidc_issuer"], given["oidc_client"]
    if not issuer and not client:
        return None
    if not issuer or not client:
        fail("INVALID_VALUE", name="--oidc-issuer", value=issuer or "", expected="it requires --oidc-client")
    if not issuer.startswith("https://") and urlsplit(issuer).hostname not in ("127.0.0.1", "::1", "localhost"):
        fail("INVALID_VALUE", name="--oidc-issuer", value=issuer, expected="it must begin with https://")
    from pystreams.dashboard.oidc import Provider  # noqa: PLC0415 - an extra, which other verbs do without

    texts = {name.removeprefix("oidc_"): value or "" for name, value in given.items()}
    return Provider(**texts)


VERBS = (ui,)
