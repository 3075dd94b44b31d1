"""Which companions there are. To add one, add a row, and its directives to the table of directives.

A companion is a verb of `python -m pystreams` that takes `--port`, `--bind` and `--from-parent`: with the last it reads
a line of JSON with connection options from its standard input, and ends when that ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.settings.config import Config


@dataclass(frozen=True)
class Row:
    """A companion. It runs while its `port` is not 0; it listens there, on the address `bind`.

    `port`, `bind`, `user`, `password`: names of directives. Without a user it logs in as `default`, with the password
    of `requirepass`; where `user` is empty it is told no login at all.
    """

    name: str
    verb: str
    port: str
    bind: str
    user: str = ""
    password: str = ""
    flags: tuple[tuple[str, str], ...] = ()
    """Directives that are yes or no, each with the option that stands for its yes."""

    @property
    def directives(self) -> tuple[str, ...]:
        """Those whose change starts it anew."""
        return tuple(filter(None, (self.port, self.bind, self.user, self.password, *dict(self.flags), "requirepass")))

    def arguments(self, config: Config) -> list[str]:
        """Its command line behind the program."""
        port, bind = str(config.integer(self.port)), config.text(self.bind).decode()
        flags = [option for directive, option in self.flags if config.flag(directive)]
        return [self.verb, "--from-parent", "--port", port, "--bind", bind, *flags]

    def login(self, config: Config) -> dict[str, str]:
        """The connection options that say who it is."""
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
    ),
)
