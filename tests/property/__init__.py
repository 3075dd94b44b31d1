"""Random commands on the core: replies to any words, and data against a replay of the log."""
