"""Stalls: time that other clients wait during one client's command. Run with `python -m benchmarks.stalls`.

`pings` measures one command, `scenes` prepares servers, `cases` lists the commands, and `table` runs them and prints
the results. May import the client, servers and layout of the other benchmarks. Uses the engine only by its protocol.
"""
