"""`python -m pystreams` is the command `pystreams`."""

from __future__ import annotations

from pystreams.commands.root import main

if __name__ == "__main__":
    main()
