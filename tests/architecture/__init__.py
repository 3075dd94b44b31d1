"""The structure of the packages: allowed imports, a core without I/O, and the drawing on the architecture page."""
