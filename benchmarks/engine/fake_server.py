"""fakeredis's TCP server as a separate process, for comparison: like the engine, it supports streams in Python."""

from __future__ import annotations

import argparse

from fakeredis import TcpFakeServer


def main() -> None:
    """Serve until the process is stopped; accepts the arguments that `benchmarks.servers` passes to every server."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.fake_server")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bind", default="127.0.0.1")
    options, _ = parser.parse_known_args()
    TcpFakeServer((options.bind, options.port)).serve_forever()


if __name__ == "__main__":
    main()
