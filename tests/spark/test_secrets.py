"""Secrets in Spark: each way to pass a secret, and each place where Spark shows or stores texts.

The programs run in separate sessions with a UI, an event log, and a log at level INFO. Every secret contains MARK.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import redis

from tests import ROOT, servers
from tests.servers import topologies
from tests.servers.certificates import openssl
from tests.suite.long import long_only

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.redis, long_only]

MARK = "s3cret-"
PASSWORDS = [f"{MARK}in-{source}" for source in ("url", "option", "environment", "file", "vault", "sentinels-url")]
_OF_KEY, _OF_SENTINEL = f"{MARK}of-the-key", f"{MARK}of-the-sentinel"

#: Program that reads and writes in every way, and stores the texts that Spark shows in the file `shown`.
PROGRAM = """
    import contextlib, io, json, sys, urllib.request
    from pathlib import Path
    from pyspark.sql import SparkSession
    from spark_streams.monitor import StreamMonitor

    directory = Path(sys.argv[1])
    ways, shown = json.loads((directory / "secrets" / "ways").read_text()), []
    spark = SparkSession.builder.getOrCreate()
    monitor = StreamMonitor.install(spark, **ways["option"]["options"])

    def explain(shown, kind=True):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            shown.explain(kind)
        return text.getvalue()

    def refused(act):
        try:
            act()
        except Exception as refusal:
            shown.append(str(refusal))
        else:
            raise AssertionError("this was to fail")

    def write(options, **more):
        spark.range(5).toDF("n").write.format("pystreams").mode("append").options(**options, **more).save()

    def queried(name, way, options):
        source = spark.readStream.format("pystreams").options(**options, stream=way, group=name)
        source = source.option("consume", "shared" if name == "shared" else "range")
        frame = source.option("startingOffsets", "earliest").schema("n long").load()
        stream = frame.writeStream.queryName(f"{name}-{way}")
        if name == "each":
            stream = stream.foreachBatch(
                lambda rows, _: rows.write.format("pystreams").mode("append").options(**options, stream="each").save()
            )
        else:
            target = "text" if name == "fails" else name
            stream = stream.format("pystreams").options(**options, stream=target)
        return stream.option("checkpointLocation", str(directory / f"{name}-{way}")).trigger(availableNow=True).start()

    for way, run in ways.items():
        options = run["options"]
        write(options, stream=way)
        read = spark.read.format("pystreams").options(**options, stream=way).schema("n long").load()
        assert sorted(row.n for row in read.collect()) == list(range(5)), way
        shown += [explain(read, kind) for kind in ("extended", "formatted", "cost", "codegen")]
        for name in run["queries"]:
            query = queried(name, way, options)
            if name == "fails":
                refused(query.awaitTermination)
            else:
                assert query.awaitTermination(300), (way, name)
            shown += [json.dumps(each, default=str) for each in query.recentProgress]
            shown.append(explain(query))
        refused(lambda: write(options, stream="text"))
        refused(lambda: write(options, stream=way, writeMode="nonsense"))
        refused(lambda: write(options, stream=way, nosuch="x"))
    url, option = ways["url"]["options"]["url"], ways["option"]["options"]
    for mistake in (url[:-1] + "x", url + "/db/x", url.replace("127.0.0.1", "127.0.0.1:1:1"), url + "?nosuch=1"):
        refused(lambda: write({"url": mistake}, stream="s"))
    refused(lambda: write({"url": url, "passwordFile": "x"}, stream="s"))
    refused(lambda: write({"url": url, "password": option["password"], "credentialProvider": "x:y"}, stream="s"))
    refused(lambda: write({**option, "user": "other"}, stream="s"))
    words = ", ".join(f"'{name}' '{value}'" for name, value in {**option, "stream": "option"}.items())
    view = spark.sql(f"CREATE TEMPORARY VIEW entries USING pystreams OPTIONS ({words})")
    shown += [explain(spark.table("entries"), "extended"), explain(view)]
    shown += [str(each) for each in monitor.latest.values()]
    web = spark.sparkContext.uiWebUrl

    def page(path):
        with urllib.request.urlopen(web + path) as answer:
            return answer.read().decode()

    app = f"/api/v1/applications/{spark.sparkContext.applicationId}"
    shown += [page(app + path) for path in ("/jobs", "/stages?details=true", "/environment", "/allexecutors")]
    shown.append(page(app + "/sql?details=true&planDescription=true&length=1000"))
    numbers = [each["id"] for each in json.loads(shown[-1])]
    assert len(numbers) >= 15, numbers
    shown += [page(f"/SQL/execution/?id={number}") for number in numbers]
    shown += [page(f"/{name}/") for name in ("StreamingQuery", "environment", "jobs", "stages", "SQL")]
    (directory / "shown").write_text("\\n".join(shown))
    spark.stop()
"""

PROVIDER = """
    from redis.credentials import UsernamePasswordCredentialProvider

    def login():
        return UsernamePasswordCredentialProvider("job", open("{secret}").read())
"""

SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.log.level": "INFO",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
}


def allow(client: redis.Redis) -> None:
    """Allow the user `job` to log in with each of the passwords."""
    client.flushall()
    client.set("text", "no stream")
    words = [f">{password}" for password in PASSWORDS]
    client.execute_command("ACL", "SETUSER", "job", "reset", "on", *words, "~*", "&*", "+@all")


def submitted(directory: Path, *words: str, **environment: str) -> dict[str, str]:
    """Run a program with spark-submit; return the texts that may contain a secret, by name: its output, and all files
    outside `secrets`.
    """
    (directory / "events").mkdir()
    settings = {**SETTINGS, "spark.eventLog.dir": (directory / "events").as_uri()}
    submit = Path(sys.executable).with_name("spark-submit")
    flags = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    ended = subprocess.run(
        [str(submit), "--master", "local[2]", *flags, *words],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(directory))),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **environment,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + "\n".join(
        line for line in ended.stderr.splitlines() if " INFO " not in line
    )
    texts = {"output": ended.stdout, "log": ended.stderr}
    for path in directory.rglob("*"):
        if path.is_file() and path.parent.name != "secrets":
            texts[str(path.relative_to(directory))] = path.read_bytes().decode("utf-8", "replace")
    assert " INFO " in texts["log"]
    assert any(name.startswith("events/") for name in texts)
    return texts


def shown_in(texts: dict[str, str], *secrets: str) -> list[str]:
    """Return the name of each text that contains one of the secrets, with some context."""
    return [
        f"{name}: {text[max(0, at - 120) : at + 60]}"
        for name, text in texts.items()
        for at in [min((text.find(secret) for secret in secrets if secret in text), default=-1)]
        if at >= 0
    ]


def test_no_secret_is_in_plans_logs_checkpoints_or_the_ui(redis_process: servers.Running, tmp_path: Path) -> None:
    """Reads and writes in batches, queries and foreachBatch show no secret in plans, logs, checkpoints or the UI."""
    hidden = tmp_path / "secrets"
    hidden.mkdir()
    in_url, in_option, in_environment, in_file, in_vault, in_sentinels_url = PASSWORDS
    (hidden / "password").write_text(in_file)
    (hidden / "vault").write_text(in_vault)
    (tmp_path / "vault_of_test.py").write_text(textwrap.dedent(PROVIDER).format(secret=hidden / "vault"))
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    url = redis_process.url
    watching = servers.sentinel(
        f"sentinel monitor main {redis_process.host} {redis_process.port} 1", f"requirepass {_OF_SENTINEL}"
    )
    with (
        redis.Redis(port=redis_process.port, protocol=2) as client,
        topologies.encrypted() as tls,
        tls.client() as encrypted,
        watching as sentinel,
    ):
        key = hidden / "client.key"
        openssl("ec", "-aes256", "-in", tls.key, "-out", key, "-passout", f"pass:{_OF_KEY}")
        by_sentinel = {
            "url": f"redis+sentinel://job:{in_sentinels_url}@127.0.0.1:{sentinel.port}/main",
            "sentinelPassword": _OF_SENTINEL,
        }
        by_tls = {**tls.options, "tls.keyFile": str(key), "tls.keyPassword": _OF_KEY}
        ways = {
            "url": ({"url": url.replace("://", f"://job:{in_url}@")}, ["ranges", "each", "fails"]),
            "option": ({"url": url, "user": "job", "password": in_option}, ["shared", "each"]),
            "environment": ({"url": url}, ["ranges"]),
            "file": ({"url": url, "user": "job", "passwordFile": str(hidden / "password")}, ["shared"]),
            "provider": ({"url": url, "credentialProvider": "vault_of_test:login"}, ["each"]),
            "tls": (by_tls, ["ranges"]),
            "sentinel": (by_sentinel, ["shared"]),
        }
        runs = {way: {"options": options, "queries": queries} for way, (options, queries) in ways.items()}
        (hidden / "ways").write_text(json.dumps(runs))
        allow(client)
        allow(encrypted)
        environment = {"PYSTREAMS_USER": "job", "PYSTREAMS_PASSWORD": in_environment}
        try:
            texts = submitted(tmp_path, "program.py", str(tmp_path), **environment)
            for server in (client, encrypted):
                texts |= {repr(name): repr(server.dump(name)) for name in server.scan_iter()}
        finally:
            client.execute_command("ACL", "DELUSER", "job")
            client.flushall()
    assert len(texts["shown"]) > 50_000
    assert shown_in(texts, MARK) == []


def test_a_jobs_secrets_are_in_no_log_and_no_file(redis_process: servers.Running, tmp_path: Path) -> None:
    """The secrets of a job are in no log or file, even secrets on its command line, which Spark stores as a JVM
    property.
    """
    in_url, in_option, *_ = PASSWORDS
    (tmp_path / "secrets").mkdir()
    settings = tmp_path / "secrets" / "replay.toml"
    settings.write_text(f'url = "{redis_process.url}"\n[options]\nuser = "job"\npassword = "{in_option}"\n')
    with redis.Redis(port=redis_process.port, protocol=2) as client:
        allow(client)
        client.xadd("s", {"n": 1})
        url = redis_process.url.replace("://", f"://job:{in_url}@")
        archive, replay = (str(ROOT / "jobs" / f"{name}.py") for name in ("archive", "replay"))
        directory = tmp_path / "kept"
        try:
            texts = submitted(tmp_path, archive, "--stream", "s", "--to", str(directory), "--trim-behind", "--url", url)
            (tmp_path / "events").rename(tmp_path / "events-of-archive")
            words = ["--from", str(directory), "--to", "back", "--checkpoint", str(tmp_path / "replay")]
            texts |= submitted(tmp_path, replay, *words, "--conf", str(settings))
            assert client.xlen("back") == 1
        finally:
            client.execute_command("ACL", "DELUSER", "job")
            client.flushall()
    assert shown_in(texts, MARK) == []
