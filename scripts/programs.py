"""Install the programs that `make test-programs` runs: python scripts/programs.py FOLDER

They are installed in environments of their own below the folder, because their requirements can conflict with those of
pystreams. A program whose language is not installed on this machine is left out, and its test is skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Commands that install a program in the copy of its folder, by the name of the tool that they need.
COMMANDS = {
    "npm": ["install --silent --no-audit --no-fund"],
    "go": ["mod tidy", "build -o watermill_job ."],
    "mvn": ["--quiet --batch-mode package dependency:copy-dependencies"],
}


def install(folder: Path) -> None:
    """Install FastStream in `folder/python`, and the programs in other languages in copies of their folders."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    python = folder / "python" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "python", with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *extras["programs"]], check=True)
    shutil.copytree(ROOT / "tests" / "programs", folder / "programs", dirs_exist_ok=True)
    for tool, directory in (("npm", "socketio"), ("go", "watermill"), ("mvn", "spring")):
        for words in COMMANDS[tool] if shutil.which(tool) else ():
            subprocess.run([tool, *words.split()], cwd=folder / "programs" / directory, check=True)


if __name__ == "__main__":
    install(Path(sys.argv[1]).absolute())
