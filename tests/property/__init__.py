"""Random commands on the core: their replies against plain lists, and its state against what its log leads to."""
