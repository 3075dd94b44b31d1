"""Stalls: time that other clients wait during one client's command. Run with `python -m benchmarks.stalls`.

`pings` measures one command, `scenes` prepares servers, `cases` lists the commands, `table` runs and prints them. It
may import the other benchmarks' client, servers and layout; it uses only the protocol of the engine.
"""
