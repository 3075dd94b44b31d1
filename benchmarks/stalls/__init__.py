"""How long one client's command keeps others waiting: `python -m benchmarks.stalls`.

`pings` measures one command, `scenes` prepares servers, `cases` says which commands, `table` runs and shows them.
It may import the other benchmarks' client, servers and layout; it knows nothing of the engine but its protocol.
"""
