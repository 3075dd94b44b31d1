"""Every command, in three rooms: ``streams``, ``data`` (the other types, keys, expiry) and ``server``.

Importing this package fills the command table (:mod:`engine.core.table.registry`). A handler sees a
:class:`engine.core.environment.context.Context` and its words; it never sees a socket, a file or a clock.
"""

from engine.core.commands import data, server, streams

__all__ = ["data", "server", "streams"]
