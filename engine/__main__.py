"""Command line: ``python -m engine [FILE] [--directive value ...]`` starts a server, ``check PATH`` verifies files."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

# SIGHUP is ignored until the event loop handles it, because its default action would end the process.
signal.signal(signal.SIGHUP, signal.SIG_IGN)

try:
    from engine.settings.config import Config  # the imports take a while
    from engine.settings.kinds import ConfigError
    from engine.shell.durability import check
    from engine.shell.network.server import Server
    from engine.shell.observation.log_lines import LOG, start_logging
except ModuleNotFoundError as error:
    # An importer handles the error itself. A missing module of the engine is a broken installation.
    if __name__ != "__main__" or (error.name or "").startswith(("engine", "streamwire")):
        raise
    sys.exit(f"engine: the package '{error.name}' is not installed. Install it: pip install 'pystreams-spark[engine]'")

_USAGE = """\
usage: python -m engine [FILE] [--directive value ...]
       python -m engine check PATH [--fix]

FILE is a configuration file in the form of redis.conf (conf/engine.conf lists the directives, with comments). Any
directive can also be a flag, which overrides the file: --port 7000 --bind "127.0.0.1 ::1" --dir data. With --port 0
the system chooses a free port. If --tls-port or --unixsocket is also given, --port 0 means: no plain TCP port.
When the server accepts clients, it prints "ready on HOST:PORT pid N" (and ", TLS on HOST:PORT" with --tls-port), or
"ready on unix:PATH pid N" if it listens only on a Unix socket. SIGTERM and SIGINT stop the server; SIGHUP reloads
the TLS files and the ACL file. After an internal error that may have left a change to the data incomplete, the server
exits with status 70.
check verifies that a log, snapshot or RDB file is undamaged (python -m engine check --help).
"""


def _announce(line: str) -> None:
    print(line, flush=True)


def main(arguments: list[str]) -> int:
    """Run the server, or check files; return the exit status."""
    if arguments[:1] == ["check"]:
        return check.main(arguments[1:], _announce)
    if arguments[:1] in (["--help"], ["-h"]):
        print(_USAGE, end="")
        return 0
    config = Config()
    try:
        config.load(arguments)
        directory = Path(config.text("dir").decode())
        if not directory.is_dir():
            raise ConfigError(f"dir: {directory} is not a directory")
        os.chdir(directory)
        config.put("dir", os.fsencode(Path.cwd()))
        start_logging(config)
        if config.ignored:
            LOG.warning("ignored directives, which have no effect on this engine: %s", " ".join(config.ignored))
        # The event loop replaces these handlers after the data has been loaded.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop_loading)
        return _run(Server(config, _announce))
    except ConfigError as error:
        print(f"engine: {error}", file=sys.stderr)
        return 1


def _stop_loading(number: int, _: object) -> None:
    """Exit with status 0. Nothing needs to be saved, because the files on disk are consistent at any moment."""
    LOG.info("stopped by %s before the data was loaded", signal.Signals(number).name)
    os._exit(0)  # Not sys.exit: the code that loads the data could catch its exception.


def _run(server: Server) -> int:
    try:
        import uvloop  # noqa: PLC0415 - not installed everywhere
    except ImportError:
        LOG.info("uvloop is not installed: using asyncio")
        asyncio.run(server.serve())
    else:
        uvloop.run(server.serve())
    return server.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
