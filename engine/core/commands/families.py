"""Command families: properties shared by the commands on one type of value, or about one subject.

Families of subcommands are declared elsewhere: a container such as XGROUP is declared next to its subcommands, and its
declaration returns their family.
"""

from __future__ import annotations

from engine.core.table.declare import Family
from engine.core.table.registry import ONE_KEY

string_command = Family(group="string", acl="string", keys=ONE_KEY)
hash_command = Family(group="hash", acl="hash", keys=ONE_KEY)
stream_command = Family(group="stream", acl="stream", keys=ONE_KEY)
key_command = Family(group="generic", acl="keyspace", keys=ONE_KEY)
database_command = Family(group="server", acl="keyspace")
generic_command = Family(group="generic", acl="connection")
connection_command = Family(group="connection", acl="connection")
transaction_command = Family(group="transactions", acl="transaction", flags="loading stale fast")
pubsub_command = Family(group="pubsub", flags="pubsub loading stale")
cluster_command = Family(group="cluster", acl="connection")
server_command = Family(group="server")
