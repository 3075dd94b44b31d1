"""Names of Redis's commands that the engine does not have.

ACL rules may contain them without effect, so that users and files written for Redis can be loaded. A command that is
added to the engine can stay in the list, because the command table takes precedence.
"""

from __future__ import annotations

FOREIGN = frozenset(
    b"""
    asking bitcount bitfield bitfield_ro bitop bitpos blmpop bzmpop bzpopmax bzpopmin client|caching client|tracking
    cluster cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|count-failure-reports
    cluster|countkeysinslot cluster|delslots cluster|delslotsrange cluster|failover cluster|flushslots
    cluster|forget cluster|getkeysinslot cluster|help cluster|info cluster|keyslot cluster|links cluster|meet
    cluster|myid cluster|myshardid cluster|nodes cluster|replicas cluster|replicate cluster|reset cluster|saveconfig
    cluster|set-config-epoch cluster|setslot cluster|shards cluster|slaves cluster|slot-stats cluster|slots
    debug|digest debug|jmap debug|object debug|quicklist-packed-threshold debug|segfault debug|set-active-expire
    debug|sleep eval eval_ro evalsha evalsha_ro failover fcall fcall_ro function|delete function|dump function|help
    function|kill function|list function|load function|restore function|stats geoadd geodist geohash geopos
    georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore getbit hexpire hexpireat
    hexpiretime hgetdel hgetex hgetf hpersist hpexpire hpexpireat hpexpiretime hpttl hsetex hsetf httl latency
    latency|doctor latency|graph latency|help latency|histogram latency|history latency|latest latency|reset lcs
    lmpop lolwut memory memory|doctor memory|help memory|malloc-stats memory|purge memory|stats memory|usage migrate
    module module|help module|list module|load module|loadex module|unload monitor pfadd pfcount pfdebug pfmerge
    pfselftest psync readonly readwrite replconf replicaof restore-asking role sadd scard script|debug script|exists
    script|help script|kill script|load sdiff sdiffstore setbit sinter sintercard sinterstore sismember slaveof
    slowlog slowlog|get slowlog|help slowlog|len slowlog|reset smembers smismember smove sort sort_ro spop spublish
    srandmember srem sscan ssubscribe sunion sunionstore sunsubscribe sync zadd zcard zcount zdiff zdiffstore
    zincrby zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex
    zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex
    zrevrangebyscore zrevrank zscan zscore zunion zunionstore
    """.split()
)
