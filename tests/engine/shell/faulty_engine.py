"""An engine with faults, as a process: the commands named in FAULTS fail if an argument contains FAULT.

The environment variable ``FAULTS`` is a JSON object. It maps each command to the number of changes (effects, touched
keys) that the command makes before it raises. Without an argument that contains ``FAULT`` the commands work.
"""

from __future__ import annotations

import json
import os
import sys

from tests.harness.injection import inject

if __name__ == "__main__":
    from engine.__main__ import main

    inject(json.loads(os.environ["FAULTS"]))
    sys.exit(main(sys.argv[1:]))
