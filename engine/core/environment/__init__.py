"""The environment of a running command: the handlers' context, and protocols for everything outside the core.

This package owns ``Context``, the part of the core that commands use. It also owns the interfaces ``Host`` (the
process), ``Durability`` (the disk) and ``Replication`` (other servers), each with a null implementation. It may import
``engine.core.clients`` and lower layers. It does not depend on commands, the dispatch, or the shell's implementations.
"""
