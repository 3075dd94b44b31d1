"""Clients of other projects: redis-py, redis-cli, redis-benchmark, ioredis, node-redis."""
