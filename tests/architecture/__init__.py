"""The structure of the packages: allowed imports, a core without I/O, and the drawing in the docs."""
