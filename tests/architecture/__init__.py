"""The packages as a structure: who may import whom, that the core does no I/O, and that the docs draw it as it is."""
