"""Messages of the commands about the server: memory, COMMAND, slow commands, DEBUG, replication."""

from __future__ import annotations

# -- memory -------------------------------------------------------------------------------------------------------
OUT_OF_MEMORY = b"OOM command not allowed when used memory > 'maxmemory'."

# -- COMMAND ------------------------------------------------------------------------------------------------------
GETKEYS_UNKNOWN = b"ERR Invalid command specified"
GETKEYS_NO_KEYS = b"ERR The command has no key arguments"
GETKEYS_ARITY = b"ERR Invalid number of arguments specified for command"
GETKEYS_NOT_FOUND = b"ERR Invalid arguments specified for command"

# -- MONITOR, SLOWLOG, LATENCY ------------------------------------------------------------------------------------
MONITOR_WITHOUT_KEYS = b"ERR Replica can't interact with the keyspace"
MONITOR_IN_MULTI = b"ERR MONITOR isn't allowed for DENY BLOCKING client"
SLOWLOG_COUNT = b"ERR count should be greater than or equal to -1"

# -- DEBUG --------------------------------------------------------------------------------------------------------
DEBUG_NOT_ALLOWED = (
    b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a '
    b"local connection, otherwise you need to set this option in the configuration file, and then restart the server."
)

# -- replication and cluster --------------------------------------------------------------------------------------
NO_CLUSTER = b"ERR This instance has cluster support disabled"
INVALID_MASTER_PORT = b"ERR Invalid master port"
NO_REPLICATION = b"ERR this server neither has replicas nor can be one"
WAIT_ON_REPLICA = (
    b"ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured "
    b"to be writable (which is not the default) writes to replicas are just local and are not propagated."
)
TOO_FEW_REPLICAS = b"NOREPLICAS Not enough good replicas to write."
MASTER_DOWN = b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
LOADING = b"LOADING Redis is loading the dataset in memory"
NO_MASTER_LINK = b"NOMASTERLINK Can't SYNC while not connected with my master"
ALREADY_FOLLOWS = b"OK Already connected to specified master"
ROLE_CHANGED = b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
READONLY = b"READONLY You can't write against a read only replica."
FAILOVER_WITHOUT_REPLICAS = b"ERR FAILOVER requires connected replicas."
FAILOVER_ON_REPLICA = b"ERR FAILOVER is not valid when server is a replica."
FAILOVER_TIMEOUT = b"ERR FAILOVER timeout must be greater than 0"
FAILOVER_IS_ON = b"ERR FAILOVER already in progress."
NO_FAILOVER = b"ERR No failover in progress."
FAILOVER_FORCE = b"ERR FAILOVER with force option requires both a timeout and target HOST and IP."
NO_SUCH_REPLICA = b"ERR FAILOVER target HOST and PORT is not a replica."
REPLICA_NOT_ONLINE = b"ERR FAILOVER target replica is not online."
FAILING_OVER = b"ERR REPLICAOF not allowed while failing over."
HANDED_OVER_TO_MASTER = b"ERR PSYNC FAILOVER can't be sent to a master."
HANDED_OVER_BY_ANOTHER = b"ERR PSYNC FAILOVER replid must match my replid."
HANDED_OVER_TOO_EARLY = b"ERR PSYNC FAILOVER is rejected until this replica has all data of its master."


def unknown_replconf(option: bytes) -> bytes:
    """Return the error of REPLCONF for an unknown option."""
    return b"ERR Unrecognized REPLCONF option: " + option
