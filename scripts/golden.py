"""Write the golden files of a release into tests/golden/VERSION: data in all formats that this version stores. Later
versions must be able to read these files.

Run the script once per release, after setting the version. Files of earlier releases are never rewritten.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.version import ENGINE_VERSION
from streamclient import pool
from tests import servers
from tests.golden import scenarios
from tests.spark_streams.driver import Site


def main() -> None:
    """Write all files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=scenarios.RELEASES / ENGINE_VERSION)
    target: Path = parser.parse_args().directory
    shutil.rmtree(target, ignore_errors=True)
    with servers.engine() as running, redis.Redis(host=running.host, port=running.port) as client:
        site = Site(running.url, client, "engine")
        for folder, names, write in (
            ("reads", scenarios.READS, scenarios.write_read),
            ("writes", scenarios.WRITES, scenarios.write_write),
        ):
            (target / folder).mkdir(parents=True)
            for name in names:
                client.flushall()
                stored = json.dumps(write(site, name), indent=1, sort_keys=True)
                (target / folder / f"{name}.json").write_text(stored + "\n")
        pool.close_all()
    found = []
    for name in scenarios.WRITTEN:
        (target / "engine" / name).mkdir(parents=True)
        found.append(scenarios.write_engine(target / "engine" / name, name))
    assert all(each == found[0] for each in found), "all formats contain the same data"
    scenarios.write_contents(target / "engine", found[0])
    files = [path for path in target.rglob("*") if path.is_file()]
    print(f"{target}: {len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")


if __name__ == "__main__":
    main()
