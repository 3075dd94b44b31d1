"""File descriptors: raising the process's limit for ``maxclients``, or lowering ``maxclients``.

Without a free descriptor, a client does not even receive an error reply, and the log cannot be rewritten. So some
descriptors are reserved for files and listening sockets.
"""

from __future__ import annotations

import resource

from engine.settings.config import Config
from engine.settings.kinds import ConfigError
from engine.shell.durability.segments.file import MOST_OPEN
from engine.shell.observation.log_lines import LOG
from engine.text import messages

#: Number of descriptors reserved for other uses than clients, as in Redis, without those for segment files.
RESERVED = 32


def reserved(config: Config) -> int:
    """Return the number of descriptors reserved for other uses than clients."""
    return RESERVED + (MOST_OPEN if config.text("stream-storage") == b"disk" else 0)


def reserve(config: Config) -> None:
    """Raise the process's limit of open files to the number that ``maxclients`` needs. If the system allows fewer open
    files, lower ``maxclients``.

    Raises ConfigError if no client could be served. From then on, ``CONFIG SET maxclients`` raises the process's limit
    in the same way, and fails if the system does not allow the new limit.
    """
    wanted, others = config.integer("maxclients"), reserved(config)
    limit = _raise_limit(wanted + others)
    if limit < wanted + others:
        if limit <= others:
            raise ConfigError(
                f"maxclients: the limit of open files is {limit}; at least {others + 1} are needed (ulimit -n)"
            )
        config.put("maxclients", b"%d" % (limit - others))
        LOG.warning(
            "maxclients %d needs %d open files, and the system allows %d: lowering it to %d (ulimit -n)",
            wanted,
            wanted + others,
            limit,
            limit - others,
        )
    config.on_change("maxclients", lambda: _follow(config))


def _follow(config: Config) -> None:
    wanted, others = config.integer("maxclients"), reserved(config)
    limit = _raise_limit(wanted + others)
    if limit < wanted + others:
        raise ConfigError(messages.too_many_clients(limit - others))


def _raise_limit(wanted: int) -> int:
    """Let the process open ``wanted`` files if possible; return the number that it can open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        # macOS rejects more than kern.maxfilesperproc, regardless of the hard limit.
        return soft
    return allowed
