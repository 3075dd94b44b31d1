"""An engine with a mistake in it, as a process: the commands named in FAULTS fail when it gets the word FAULT.

``FAULTS`` maps a command to how many changes (effects, touched keys) it makes before it raises, as JSON. The word is
any argument that contains ``FAULT``; without it the commands work.
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
