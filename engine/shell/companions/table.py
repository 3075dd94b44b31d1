"""Table of companions. To add one, add a row here, and its directives to the table of directives.

A companion is a verb of `python -m pystreams` that accepts `--port`, `--bind` and `--from-parent`. With
`--from-parent`, it reads connection options from its standard input, as a line of JSON, and exits when that input
closes.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.settings.config import Config


@dataclass(frozen=True)
class Row:
    """One companion. It runs while the directive `port` is not 0, and listens on that port of the address `bind`.

    `port`, `bind`, `user` and `password` are names of directives. If the directive `user` is empty, the companion logs
    in as `default`. If the directive `password` is empty too, the companion uses the password of `requirepass`. A
    companion without a directive `user` receives no login.
    """

    name: str
    verb: str
    port: str
    bind: str
    user: str = ""
    password: str = ""
    #: Boolean directives, each with the option that is passed if the value is yes.
    flags: tuple[tuple[str, str], ...] = ()
    #: Text directives, each with the option for its value; an empty value is not passed.
    options: tuple[tuple[str, str], ...] = ()

    @property
    def directives(self) -> tuple[str, ...]:
        """Return the directives whose change restarts the companion."""
        return tuple(
            filter(
                None,
                (self.port, self.bind, self.user, self.password, *dict(self.flags), *dict(self.options), "requirepass"),
            )
        )

    def arguments(self, config: Config) -> list[str]:
        """Return the command-line arguments of the companion."""
        port, bind = str(config.integer(self.port)), config.text(self.bind).decode()
        flags = [option for directive, option in self.flags if config.flag(directive)]
        texts = [
            (option, config.text(directive).decode("utf-8", "surrogateescape")) for directive, option in self.options
        ]
        options = [word for option, text in texts if text for word in (option, text)]
        return [self.verb, "--from-parent", "--port", port, "--bind", bind, *flags, *options]

    def login(self, config: Config) -> dict[str, str]:
        """Return the connection options for the companion's login."""
        if not self.user:
            return {}
        user, password = config.text(self.user), config.text(self.password)
        if not user and not password:
            password = config.text("requirepass")
        options = {"user": user, "password": password}
        return {name: value.decode("utf-8", "surrogateescape") for name, value in options.items() if value}


ROWS = (
    Row("metrics", "metrics", "metrics-port", "metrics-bind", "metrics-user", "metrics-password"),
    Row(
        *("dashboard", "ui", "dashboard-port", "dashboard-bind", "dashboard-user", "dashboard-password"),
        flags=(("dashboard-allow-changes", "--allow-changes"),),
        options=(("dashboard-state", "--state"),),
    ),
)
