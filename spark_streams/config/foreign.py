"""Options of other Spark connectors that this connector refuses, each with advice on its replacement.

Other options of these connectors are accepted, as aliases of this connector's options, and are not listed here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Foreign:
    """An option of another connector. `name`: the option in that connector's spelling. `peer`: the connector.

    `advice`: what to do instead.
    """

    name: str
    peer: str
    advice: str


_SPARK_REDIS = {
    "stream.keys": "Set 'stream', or 'streams' for several streams.",
    "stream.offsets": "Set 'group' to the group's name and 'startingOffsets' to the IDs, as JSON by stream.",
    "stream.group.name": "Set 'group'.",
    "stream.consumer.prefix": "Set 'consumerPrefix'.",
    "stream.parallelism": "Set 'minPartitions': it splits a stream into ranges of IDs. Each range keeps its order.",
    "stream.read.batch.size": "Set 'maxEntriesPerTrigger' for a micro-batch, 'pageSize' for a reply.",
    "stream.read.block": "Remove it: a trigger without new entries already waits for them, for at most 'idleWaitMs'.",
    "host": "Set 'url' to redis://host:port.",
    "port": "Set 'url' to redis://host:port.",
    "auth": "Set 'password'.",
    "dbNum": "Set 'url' to redis://host:port/database.",
    "ssl": "Set 'url' to a URL that begins with rediss://.",
    "timeout": "Set 'retryTimeoutMs'.",
}
_KAFKA = {
    "kafka.bootstrap.servers": "Set 'url' to redis://host:port.",
    "kafka.group.id": "Set 'group'.",
    "assign": "Set 'streams'. For several partitions per stream set 'minPartitions'.",
    "topic": "Set 'stream', or write a column '_stream'.",
    "includeHeaders": "Remove it: all fields of an entry are in the column 'fields', or in columns with the names of "
    "the fields.",
}
_STREAMING_WRITES = {
    "checkpointLocation": "Set it on writeStream.",
    "queryName": "Set it on writeStream, with queryName().",
}
_AUTO_LOADER = {"rescuedDataColumn": "Name a string column '_rescued' in the schema."}
_FILES = {"paths": "Set 'streams' to a comma-separated list; load() takes one stream."}

#: Options by name in lower case, as Spark passes them.
INSTEAD = {
    name.lower(): Foreign(name, peer, advice)
    for peer, table in (
        ("spark-redis", _SPARK_REDIS),
        ("Spark's Kafka source", _KAFKA),
        ("Spark's file sources", _FILES),
        ("Spark's streaming writes", _STREAMING_WRITES),
        ("Databricks' Auto Loader", _AUTO_LOADER),
    )
    for name, advice in table.items()
}
