"""Pictures of the dashboard's screens, for the docs: `python scripts/screenshots.py [DIRECTORY [SCREEN...]]`.

Starts two engines, the dashboard of both with an hour of history, and Chromium. The first engine has the data of a
small shop, the second one an archive of orders.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Hashable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import redis
from playwright.sync_api import Browser, Page, sync_playwright

from pystreams.dashboard import audit_log
from pystreams.dashboard.audit_log import Audit
from pystreams.dashboard.login import Rules
from pystreams.dashboard.run import Server, listen, site
from pystreams.dashboard.sampler import History, Sampler
from spark_streams.config import options
from spark_streams.reports import STREAM, StreamReport, summary, to_fields
from streamclient.config.address import Address

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "images"
TOKEN = "a-token-for-pictures"  # noqa: S105 - of a dashboard that lives for a minute
_HOUR = 3600
_WARM_UP_MS = 8_000
_ALSO_DARK_AND_NARROW = ("overview", "group")  # screens with pictures in the dark theme and on a narrow screen

#: Streams with their entries per second.
STREAMS = {
    "orders": 42.0,
    "payments": 38.0,
    "shipments": 11.0,
    "clickstream:{0}": 310.0,
    "clickstream:{1}": 296.0,
    "clickstream:{2}": 304.0,
    "inventory": 17.0,
    "weather": 1.2,
    "signups": 0.8,
    "audit": 96.0,
    "emails": 7.5,
    "returns": 0.3,
}
#: Groups: stream, name, lag, pending entries, consumers, and whether the consumers are active.
GROUPS = (
    ("orders", "billing", 0, 12, 4, True),
    ("orders", "warehouse", 180, 64, 3, True),
    ("orders", "fraud-check", 5240, 310, 2, False),
    ("payments", "ledger", 0, 8, 2, True),
    ("payments", "receipts", 22, 31, 3, True),
    ("shipments", "tracking", 0, 4, 2, True),
    ("clickstream:{0}", "sessions", 3, 40, 1, True),
    ("clickstream:{1}", "sessions", 0, 38, 1, True),
    ("clickstream:{2}", "sessions", 6, 42, 1, True),
    ("audit", "archive", 940, 20, 1, True),
    ("emails", "sender", 75, 160, 4, True),
    ("inventory", "stock-levels", 0, 2, 1, True),
)
_CITIES = ("Berlin", "Lyon", "Porto", "Gdańsk", "Turin", "Malmö", "Ghent")
_PATHS = ("/", "/cart", "/search?q=lamp", "/product/1142", "/product/88", "/checkout", "/account")


def fields(stream: str, chance: random.Random) -> dict[str, str | int | float]:
    """Return the fields of a random entry of a stream."""
    number = chance.randint(10_000, 99_999)
    if stream.startswith("clickstream"):
        return {"session": f"s-{number:x}", "path": chance.choice(_PATHS), "ms": int(chance.lognormvariate(5, 0.6))}
    if stream == "weather":
        station = chance.choice(("ewr", "jfk", "lga"))
        return {"station": station, "temp": round(chance.gauss(54, 14), 1), "wind": round(chance.expovariate(0.1), 1)}
    if stream == "audit":
        action = chance.choice(("login", "view", "update", "export"))
        return {"actor": f"user-{number % 400}", "action": action, "object": f"order/{number}"}
    if stream == "signups":
        return {"user": f"user-{number}", "city": chance.choice(_CITIES), "plan": chance.choice(("free", "pro"))}
    amount = round(chance.lognormvariate(3.6, 0.7), 2)
    return {"order": f"O-{number}", "customer": f"C-{number % 900}", "amount": amount, "city": chance.choice(_CITIES)}


def fill(client: redis.Redis) -> None:
    """Add streams with entries of the last hour, groups, and dead letters."""
    chance = random.Random(7)
    now = round(time.time() * 1000)
    for stream, rate in STREAMS.items():
        entries = int(min(6000, rate * _HOUR))
        pipe = client.pipeline(transaction=False)
        for at in range(entries):
            pipe.xadd(stream, fields(stream, chance), id=f"{now - round((entries - at) / rate * 1000)}-0")
        pipe.execute()
    for stream, group, lag, pending, consumers, _ in GROUPS:
        client.xgroup_create(stream, group, "0")
        for at in range(consumers):
            count = pending // consumers
            client.xreadgroup(group, f"{group}-{at + 1}", {stream: ">"}, count=count)
        entries = client.xrevrange(stream, count=lag + 1)
        length = client.xlen(stream)
        client.execute_command("XGROUP", "SETID", stream, group, entries[-1][0], "ENTRIESREAD", length - lag)
        for at in range(consumers):
            ids = [
                row["message_id"]
                for row in client.xpending_range(stream, group, "-", "+", pending, f"{group}-{at + 1}")
            ]
            for entry_id in ids:
                idle = int(chance.expovariate(1 / (900_000 if group == "fraud-check" else 9_000)))
                deliveries = 1 + int(chance.expovariate(0.9 if group == "fraud-check" else 3))
                client.xclaim(
                    stream, group, f"{group}-{at + 1}", 0, [entry_id], idle=idle, retrycount=deliveries, justid=True
                )
    reports(client, chance, now)
    reasons = (
        "delivered more than 5 times",
        "amount is not a number: 'n/a'",
        "customer is missing",
        "delivered more than 5 times",
    )
    for at in range(164):
        origin = chance.choice(("orders", "orders", "payments", "emails"))
        letter = {
            "_original_stream": origin,
            "_original_id": f"{now - chance.randint(60_000, 3_000_000)}-0",
            "_original_deliveries": chance.randint(5, 9),
            "_reason": chance.choice(reasons),
        }
        client.xadd("failed", letter | fields(origin, chance), id=f"{now - (164 - at) * 20_000}-0")


def reports(client: redis.Redis, chance: random.Random, now: int) -> None:
    """Add reports of three queries in the format of StreamMonitor."""
    queries = (
        ("revenue-per-minute", 840, 120, "billing"),
        ("orders-to-delta", 910, 38, "warehouse"),
        ("fraud", 42, 5240, "fraud-check"),
    )
    for batch in range(60):
        for at, (query, rate, lag, group) in enumerate(queries):
            rows = rate + chance.randint(-rate // 9, rate // 9)
            took = 10_000 + chance.randint(-400, 900)
            position = f"{now - lag * 24}-0"
            each = StreamReport(
                query,
                batch,
                "orders",
                position,
                f"{now}-0",
                lag,
                True,
                lag * 24,
                lag * 24,
                group,
                12,
                rows,
                rows / 10,
                0,
                0,
            )
            report = summary(query, f"{query}-0c9f", 1200 + batch, rows * 10, took, [each])
            words = to_fields(report)
            client.xadd(
                STREAM, dict(zip(words[::2], words[1::2], strict=True)), id=f"{now - (60 - batch) * 10_000 + at}-0"
            )


def live(port: int, ended: Event) -> None:
    """Add entries continuously, and read them for the groups that advance. Runs in a separate process."""
    client = redis.Redis(port=port)
    chance = random.Random(11)
    due = dict.fromkeys(STREAMS, 0.0)
    while not ended.wait(0.2):
        pipe = client.pipeline(transaction=False)
        for stream, rate in STREAMS.items():
            due[stream] += rate * 0.2 * chance.uniform(0.8, 1.2)
            while due[stream] >= 1:
                due[stream] -= 1
                pipe.xadd(stream, fields(stream, chance))
        for stream, group, _, _, consumers, calls in GROUPS:
            if calls:
                rate = STREAMS[stream] * 0.2 * 1.5 + 1
                pipe.xreadgroup(
                    group,
                    f"{group}-{chance.randint(1, consumers)}",
                    {stream: ">"},
                    count=round(rate),
                    noack=True,
                )
        pipe.execute()


def hour(history: History) -> None:
    """Add values of the last hour to a history, in the sampler's format."""
    now = round(time.time() * 1000)
    chance = random.Random(3)
    total = sum(STREAMS.values())
    for at in range(-_HOUR, 0, 5):
        day = 1 + 0.25 * math.sin(at / 420) + 0.08 * math.sin(at / 61) + chance.gauss(0, 0.02)
        slump = 1 / (1 + math.exp(-(at + 900) / 90))
        values: dict[Hashable, float | None] = {
            ("rate",): total * day,
            ("lag",): 1300 + 5200 * slump + 300 * math.sin(at / 200) + chance.gauss(0, 40),
            ("pending",): 430 + 280 * slump + chance.gauss(0, 8),
        }
        for stream, rate in STREAMS.items():
            values["rate", stream.encode()] = rate * (day + chance.gauss(0, 0.05))
            values["length", stream.encode()] = min(6000, rate * _HOUR) + min(rate, 2) * at / 5
        for stream, group, lag, pending, _, calls in GROUPS:
            key = stream.encode(), group.encode()
            swing = 1 + 0.4 * math.sin(at / 230) + chance.gauss(0, 0.05)
            values["lag", *key] = max(0.0, lag * (swing if calls else slump))
            values["pending", *key] = max(0.0, pending * (swing if calls else slump))
            values["behind", *key] = max(0.0, lag * (swing if calls else slump) / STREAMS[stream])
        history.add(now + at * 1000, values)


def changes(log: Audit, server: str) -> None:
    """Add sample changes of a server to the dashboard's audit log."""
    for user, action, stream, plan, before, after, result in (
        (
            "ada",
            "purge",
            "failed-emails",
            "Remove 40 dead letters of failed-emails.",
            {"Length": "52"},
            {"Length": "12"},
            "Removed 40 dead letters.",
        ),
        (
            "grace",
            "seek",
            "orders",
            "Move the group warehouse of orders to 1732255436789-0.",
            {"Position": "1732251836789-0", "Lag": "5,420"},
            {"Position": "1732255436789-0", "Lag": "180"},
            "Moved the group warehouse to 1732255436789-0.",
        ),
        (
            "grace",
            "ack",
            "orders",
            "Acknowledge 3 of 67 pending entries of the group warehouse of orders.",
            {"Pending entries": "67"},
            {"Pending entries": "64"},
            "Acknowledged 3 pending entries.",
        ),
        (
            "ada",
            "replay",
            "failed",
            "Replay 12 dead letters of failed to the original streams.",
            {"Length": "176"},
            {"Length": "164"},
            "Replayed 12 dead letters.",
        ),
    ):
        record = {
            "server": server,
            "user": user,
            "from": "10.0.0.17",
            "action": action,
            "stream": stream,
            "key": stream,
            "plan": plan,
            "before": before,
            "after": after,
        }
        number = log.record_start(record)
        log.record_result(number, {**record, "event": "done", "result": result})


@contextlib.contextmanager
def engine() -> Iterator[int]:
    """Run an in-memory engine on a free port."""
    command = [sys.executable, "-m", "engine", "--port", "0", "--save", "", "--slowlog-log-slower-than", "300"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "ready on" in line)
            yield int(line.split("ready on ")[1].split()[0].rpartition(":")[2])
        finally:
            process.terminate()
            process.wait(10)


@contextlib.contextmanager
def dashboard(url: str, history: History, state: Path) -> Iterator[str]:
    """Run a dashboard in a thread, with changes allowed. Yields its URL."""
    address = options.server({"url": url})
    assert isinstance(address, Address)
    made = listen("127.0.0.1", 0)
    log = Audit(state / audit_log.FILE)
    running = Server(site(Rules(address, TOKEN, True, True, audit=log), Sampler(address, history=history)))
    changes(log, address.shown)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [made]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.getsockname()[1]}/"
    finally:
        running.should_exit = True
        thread.join()


def opened(browser: Browser, url: str, scheme: str, width: int = 1280, height: int = 860) -> Page:
    """Return a page that is logged in."""
    theme = "dark" if scheme == "dark" else "light"
    page = browser.new_page(color_scheme=theme, viewport={"width": width, "height": height}, reduced_motion="reduce")  # type: ignore[arg-type]
    page.on(
        "console", lambda message: print(f"browser: {message.text}") if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda failure: print(f"browser: {failure}"))
    page.goto(f"{url}#token={TOKEN}")
    page.wait_for_selector("main h1", state="attached", timeout=10_000)
    return page


SCREENS = {
    "overview": "#/",
    "groups": "#/groups",
    "stream": "#/stream/orders",
    "group": "#/group/orders/fraud-check",
    "pending": "#/pending/orders/fraud-check",
    "letters": "#/letters/failed",
    "queries": "#/queries",
    "audit": "#/audit",
}


def capture(page: Page, url: str, screen: str, path: Path, *, whole: bool = False) -> None:
    """Write one picture."""
    page.goto(f"{url}{SCREENS[screen]}")
    page.wait_for_selector("main .screen")
    page.wait_for_timeout(1200)
    page.screenshot(path=path, full_page=whole)
    print(f"{path} {path.stat().st_size // 1024} KiB")


def main() -> None:
    """Write the pictures of all screens, or of the screens given on the command line.

    If the environment has WIDTHS, such as 1280,768,360, write the whole screens at these widths instead, for a visual
    check.
    """
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    wanted = sys.argv[2:] or list(SCREENS)
    directory.mkdir(parents=True, exist_ok=True)
    ended = multiprocessing.Event()
    history = History()
    with (
        engine() as port,
        redis.Redis(port=port) as client,
        tempfile.TemporaryDirectory() as state,
    ):
        fill(client)
        producer = multiprocessing.Process(target=live, args=(port, ended))
        producer.start()
        hour(history)
        try:
            with (
                dashboard(f"redis://127.0.0.1:{port}", history, Path(state)) as url,
                sync_playwright() as playwright,
                playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"]) as browser,
            ):
                page = opened(browser, url, "light")
                page.wait_for_timeout(_WARM_UP_MS)  # wait until rates are known
                if widths := os.environ.get("WIDTHS"):
                    for width in map(int, widths.split(",")):
                        page.set_viewport_size({"width": width, "height": 860})
                        for screen in wanted:
                            capture(page, url, screen, directory / f"{screen}-{width}.png", whole=True)
                    return
                for screen in wanted:
                    capture(page, url, screen, directory / f"dashboard-{screen}.png")
                dark = opened(browser, url, "dark")
                narrow = opened(browser, url, "light", 390, 844)
                for screen in [screen for screen in wanted if screen in _ALSO_DARK_AND_NARROW]:
                    capture(dark, url, screen, directory / f"dashboard-{screen}-dark.png")
                    capture(narrow, url, screen, directory / f"dashboard-{screen}-narrow.png")
        finally:
            ended.set()
            producer.join()


if __name__ == "__main__":
    main()
