"""An engine with faults, as a process: the commands named in FAULTS fail if an argument contains FAULT.

``FAULTS`` maps each command to the number of changes (effects, touched keys) that it makes before it raises, as JSON.
Without an argument that contains ``FAULT`` the commands work.
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
