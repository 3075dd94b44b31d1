"""File descriptors: as many as ``maxclients`` needs, or fewer clients.

Without a descriptor left, a client gets no answer, not even that there are too many, and the log cannot be rewritten.
So some are kept for files and for the sockets that listen.
"""

from __future__ import annotations

import resource

from engine.settings.config import Config
from engine.settings.kinds import ConfigError
from engine.shell.durability.segments.file import MOST_OPEN
from engine.shell.observation.reporting import LOG
from engine.text.messages import settings

#: Descriptors that are not for clients, as many as Redis keeps; segment files come on top.
RESERVED = 32


def reserved(config: Config) -> int:
    """How many descriptors are not for clients."""
    return RESERVED + (MOST_OPEN if config.text("stream-storage") == b"disk" else 0)


def reserve(config: Config) -> None:
    """Raise the process's limit as far as ``maxclients`` needs and the system allows, or lower ``maxclients``.

    A ConfigError where hardly a client could be served. ``CONFIG SET maxclients`` is then held to the same.
    """
    wanted, others = config.integer("maxclients"), reserved(config)
    limit = _raise_limit(wanted + others)
    if limit < wanted + others:
        if limit <= others:
            raise ConfigError(
                f"maxclients: the limit of open files is {limit}, too few to start with; at least {others + 1} are "
                "needed (ulimit -n)"
            )
        config.put("maxclients", b"%d" % (limit - others))
        LOG.warning(
            "maxclients %d needs %d open files, and the system allows %d: it is lowered to %d (ulimit -n)",
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
        raise ConfigError(settings.too_many_clients(limit - others))


def _raise_limit(wanted: int) -> int:
    """Let the process open at least ``wanted`` files, if it may; how many it can open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        # macOS refuses more than kern.maxfilesperproc, whatever the hard limit says.
        return soft
    return allowed
