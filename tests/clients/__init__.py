"""Clients that others wrote: redis-py, redis-cli, redis-benchmark, ioredis, node-redis."""
