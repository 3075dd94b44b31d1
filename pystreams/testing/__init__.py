"""Test kit for pipelines: servers, a movable clock, faults, and comparisons of streams with rows.

The pytest plugin (`pystreams.testing.plugin`) provides fixtures. The fixtures use the functions and classes of this
package, which also work with other test runners. The package may import the connector's `register`, and starts the
engine as a process. Names are imported on first use, since pytest imports the plugin for every test run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pystreams.testing.proxy import FaultProxy, proxy
    from pystreams.testing.registry import SchemaRegistry, schema_registry
    from pystreams.testing.servers import Clock, engine, redis, wait_until
    from pystreams.testing.session import assert_stream_equal, run_available_now
    from pystreams.testing.streams import Entry, Server, add, entries

__all__ = [
    "Clock",
    "Entry",
    "FaultProxy",
    "SchemaRegistry",
    "Server",
    "add",
    "assert_stream_equal",
    "engine",
    "entries",
    "proxy",
    "redis",
    "run_available_now",
    "schema_registry",
    "wait_until",
]

_MODULES = {
    "proxy": ("FaultProxy", "proxy"),
    "registry": ("SchemaRegistry", "schema_registry"),
    "servers": ("Clock", "engine", "redis", "wait_until"),
    "session": ("assert_stream_equal", "run_available_now"),
    "streams": ("Entry", "Server", "add", "entries"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
