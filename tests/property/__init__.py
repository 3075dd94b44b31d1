"""Random commands on the core: replies against plain lists, and data against a replay of the log."""
