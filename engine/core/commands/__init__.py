"""All commands, in three packages: ``streams``, ``data`` (other types, keys, expiry) and ``server``.

Importing this package fills the command table (``engine.core.table.registry``). A handler receives a
``engine.core.environment.context.Context`` and the command's words: its name and arguments. Handlers have no access to
sockets, files or clocks.
"""

from engine.core.commands import data, server, streams

__all__ = ["data", "server", "streams"]
