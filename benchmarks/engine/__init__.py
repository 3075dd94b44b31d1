"""The engine beside redis-server: the same client, the same bytes, in turns: speed, latency, memory, durability."""
