"""Clients that others wrote, on the engine and a real Redis: redis-py, redis-cli, redis-benchmark, ioredis, node-redis."""
