"""Install the programs that `make test-programs` runs: python scripts/programs.py FOLDER

They are installed in a separate environment, because their requirements can conflict with those of pystreams.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Programs that are installed without their requirements. They require redis-py below 6, but also work with the newer
#: releases that other programs require.
WITHOUT_REQUIREMENTS = ["arq"]


def install(folder: Path) -> None:
    """Install the packages of the extra ``programs`` in ``folder``, and npm packages in ``folder/node``."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *extras["programs"]], check=True)
    subprocess.run([*pip, "--no-deps", *WITHOUT_REQUIREMENTS], check=True)
    node = folder / "node"
    node.mkdir(exist_ok=True)
    for name in ("package.json", "bullmq_job.js", "libraries.js"):
        shutil.copy(ROOT / "tests" / "programs" / "node" / name, node / name)
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=node, check=True)


if __name__ == "__main__":
    install(Path(sys.argv[1]).absolute())
