"""The configuration: files, flags, CONFIG GET and SET, and the table of directives against a real Redis."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis as redis_py

from engine.settings.config import Config
from engine.settings.directives import ALIASES, DIRECTIVES, IGNORED
from engine.settings.kinds import ConfigError, parse_memory
from engine.text.words import quote, split_words
from tests import ROOT
from tests.servers import Running

#: Directives whose defaults differ from those of a redis-server without a file, and the reason.
OTHER_DEFAULTS = {
    "bind": "loopback alone",
    "save": "the server under test is told not to save",
    "dir": "each has its own",
    "port": "each has its own",
    "unixsocket": "the server under test has one",
    "repl-diskless-sync-delay": "a full copy begins at once if nothing else is said",
    "enable-debug-command": "the server under test allows it",
}


def loaded(*arguments: str) -> Config:
    config = Config()
    config.load(arguments)
    return config


@pytest.mark.redis
def test_every_directive_of_redis_is_known(redis_process: Running) -> None:
    """The engine ignores a directive of Redis 7.0, or has it with the same default, except ``OTHER_DEFAULTS``."""
    with redis_py.Redis(port=redis_process.port, decode_responses=True) as client:
        real: dict[str, str] = client.config_get("*")
    ours = {name.decode(): value.decode() for name, value in Config().find([b"*"])}
    assert set(real) - set(ours) <= IGNORED
    different = {name: (value, ours[name]) for name, value in real.items() if ours.get(name, value) != value}
    assert set(different) <= set(OTHER_DEFAULTS), different


def test_every_directive_accepts_its_own_value() -> None:
    """A value that CONFIG GET returns can be set again, and changes nothing."""
    config = Config()
    assert config.change([(b"dir", b"/")]) is not None
    before = config.find([b"*"])
    for name, value in before:
        directive = DIRECTIVES[ALIASES.get(name.decode(), name.decode())]
        if not directive.fixed:
            assert config.change([(name, value)]) is None, name
    assert config.find([b"*"]) == before


def test_every_directive_is_read() -> None:
    """The core or the shell reads the value of each directive."""
    engine = ROOT / "engine"
    code = "".join(path.read_text() for room in ("core", "shell") for path in (engine / room).rglob("*.py"))
    code += (engine / "__main__.py").read_text() + (engine / "settings" / "config.py").read_text()
    assert {name for name in DIRECTIVES if f'"{name}"' not in code} == set()


def test_stock_directives_without_effect_are_ignored(tmp_path: Path) -> None:
    """Directives without effect may be given. CONFIG does not show or change them, and a rewrite keeps them."""
    (file := tmp_path / "redis.conf").write_text("timeout 5\nDaemonize no\noom-score-adj-values 0 200 800\n")
    config = loaded(str(file), "--hz", "many", "--io-threads", "4", "--daemonize", "yes")
    assert not IGNORED & {*DIRECTIVES, *ALIASES}
    assert config.ignored == ["daemonize", "oom-score-adj-values", "hz", "io-threads"]
    assert config.find([b"hz", b"daemonize"]) == []
    assert config.change([(b"timeout", b"6"), (b"hz", b"20")]) == (
        b"ERR CONFIG SET failed (possibly related to argument 'hz') - the directive has no effect on this engine"
    )
    assert config.integer("timeout") == 5
    assert config.rewritten(file.read_bytes()) == file.read_bytes()


def test_flags_and_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Flags override the file; quotes, comments, includes and repeated lines are parsed."""
    directory = tmp_path_factory.mktemp("conf")
    other = directory / "other.conf"
    other.write_text('requirepass "a \\x41\\"b"\n')
    file = directory / "engine.conf"
    file.write_text(
        f"# a comment\n\n  PORT 7000\nmaxmemory 1kb\nsave 900 1\nsave 300 10\ninclude {other}\n"
        "client-output-buffer-limit pubsub 1mb 512kb 5\nslave-priority 3\n"
    )
    config = loaded(str(file), "--port", "7001", "--bind", "127.0.0.1", "::1", "--slowlog-log-slower-than", "-1")
    assert config.integer("port") == 7001
    assert config.integer("maxmemory") == 1024
    assert config.integer("slowlog-log-slower-than") == -1
    assert config.integer("replica-priority") == 3
    assert config.text("save") == b"900 1 300 10"
    assert config.text("bind") == b"127.0.0.1 ::1"
    assert config.text("requirepass") == b'a A"b'
    assert config.value("client-output-buffer-limit", dict)[b"pubsub"] == (1 << 20, 1 << 19, 5)
    assert loaded("--save", "").text("save") == b""
    assert loaded("--save 60 1", "300", "10").text("save") == b"60 1 300 10"  # A flag and its value as one word.
    assert loaded("--appendonly", "yes").flag("appendonly") is True
    assert loaded("--cluster-enabled", "no").flag("appendonly") is False
    assert loaded("--primaryauth", "secret").text("masterauth") == b"secret"  # Valkey's name of the directive.


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--prt", "1"], r"--prt: unknown directive 'prt'; did you mean 'port'\?"),
        (["--quux", "1"], r"--quux: unknown directive 'quux'$"),
        (["--port"], "--port: port: wrong number of arguments"),
        (["--port", "1", "2"], "--port: port: wrong number of arguments"),
        (["--port", "70000"], "argument must be between 0 and 65535 inclusive"),
        (["--port", "0x1"], "argument couldn't be parsed into an integer"),
        (["--appendonly", "maybe"], "argument must be 'yes' or 'no'"),
        (["--appendfsync", "never"], "must be one of the following: everysec, always, no"),
        (["--maxmemory", "5%"], "argument must be a memory value"),
        (["--proto-max-bulk-len", "5"], "argument must be between 1048576 and"),
        (["--unixsocketperm", "9"], "argument couldn't be parsed as an octal number"),
        (["--unixsocketperm", "0o700"], "argument couldn't be parsed as an octal number"),
        (["--client-output-buffer-limit", "normal 1mb 1mb 7_0"], "Error in hard, soft or soft_seconds setting"),
        (["--save", "60"], "Invalid save parameters"),
        (["--dbfilename", "a/b"], "dbfilename can't be a path, just a filename"),
        (["--dbfilename", ""], "dbfilename can't be a path, just a filename"),
        (["--appendfilename", "a\\b"], "appendfilename can't be a path, just a filename"),
        (["--notify-keyspace-events", "Q"], "Invalid event class character"),
        (["--client-output-buffer-limit", "normal 1 2"], "Wrong number of arguments in buffer limit"),
        (["--client-output-buffer-limit", "nobody 1 2 3"], "Invalid client class"),
        (["/nowhere/engine.conf"], "cannot read the configuration file /nowhere/engine.conf: No such file"),
        (["file", "7000"], "cannot read"),
        (["--cluster-enabled", "yes"], "cluster-enabled"),
        (['--dir "x'], "unbalanced"),
        (["--repl-timeout", "2147483648"], "argument must be between"),
        (["--timeout", "1kb"], "argument couldn't be parsed into an integer"),
        (["--slowlog-max-len", ""], "argument couldn't be parsed into an integer"),
        (["--repl-backlog-size", "0"], "argument must be between"),
        (["--replicaof", "localhost"], "number of arguments"),
        (["--replicaof", "h", "x"], "port"),
        (["--replicaof", "h", "65536"], "port"),
        (["--replicaof", "a", "b", "c"], "number"),
    ],
)
def test_an_invalid_argument_is_an_error_that_names_it(arguments: list[str], error: str) -> None:
    """An invalid argument raises an error that names it."""
    with pytest.raises(ConfigError, match=error):
        loaded(*arguments)


def test_an_error_in_a_file_names_its_line(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("conf") / "engine.conf"
    file.write_text("port 1\n\ntimeout many\n")
    with pytest.raises(ConfigError, match=r"engine.conf, line 3: timeout: argument couldn't be parsed into an integer"):
        loaded(str(file))


def test_the_configuration_in_conf_has_the_defaults() -> None:
    """conf/engine.conf changes no directive from its default."""
    path = ROOT / "conf" / "engine.conf"
    assert loaded(str(path)).find([b"*"]) == Config().find([b"*"])


def test_config_set_is_all_or_nothing() -> None:
    """An invalid pair, or a listener that raises, leaves all values unchanged; earlier listeners are called again."""
    config = Config()
    assert config.change([(b"timeout", b"5"), (b"maxclients", b"x")]) is not None
    assert config.integer("timeout") == 0
    heard: list[int] = []
    config.on_change("timeout", lambda: heard.append(config.integer("timeout")))

    def refuse() -> None:
        if config.integer("maxclients") == 99:
            raise ConfigError("no")

    config.on_change("maxclients", refuse)
    error = config.change([(b"timeout", b"5"), (b"maxclients", b"99")])
    assert error == b"ERR CONFIG SET failed (possibly related to argument 'maxclients') - no"
    assert (config.integer("timeout"), config.integer("maxclients")) == (0, 10000)
    assert heard == [5, 0]
    assert config.change([(b"timeout", b"6"), (b"MAXCLIENTS", b"20")]) is None
    assert heard == [5, 0, 6]


def test_rewriting_keeps_comments_and_order() -> None:
    """CONFIG REWRITE keeps comments and order, updates values, and appends new directives."""
    config = loaded("--timeout", "5", "--requirepass", 'a "b', "--maxclients", "20")
    text = config.rewritten(b"# mine\ntimeout 1\n\nunknown thing\ntimeout 2\n")
    assert text == b'# mine\ntimeout 5\n\nunknown thing\nmaxclients 20\nrequirepass "a \\"b"\n'


@pytest.mark.parametrize(
    ("text", "size"),
    [(b"1", 1), (b"1b", 1), (b"1k", 1000), (b"1KB", 1024), (b"2mb", 2 << 20), (b"3g", 3 * 10**9), (b"", 0)],
)
def test_sizes_have_units(text: bytes, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("word", [b"", b"plain", b"two words", b'"', b"\\", b"'", b"\0\xff\r\n\t", "é".encode()])
def test_a_quoted_word_is_read_back(word: bytes) -> None:
    assert split_words(b"a " + quote(word) + b" b") == [b"a", word, b"b"]


def test_replicaof_takes_a_host_and_a_port():
    """replicaof, or slaveof, takes a host and a valid port, nothing, or NO ONE."""
    config = Config()
    config.load(["--replicaof", "localhost 6379"])
    assert config.value("replicaof", tuple) == (b"localhost", b"6379")
    for nothing in ("NO ONE", ""):
        config.load(["--slaveof", *(nothing.split() or [""])])
        assert config.text("replicaof") == b""


def test_rewriting_removes_replicaof_from_a_master():
    """CONFIG REWRITE removes replicaof, under either name, if the server is no longer a replica."""
    config = Config()
    config.load(["--replicaof", "localhost 6379"])
    assert b"replicaof localhost 6379" in config.rewritten(b"port 1\nslaveof other 1\n").splitlines()
    config.note("replicaof", ())
    assert b"of" not in config.rewritten(b"port 1\nslaveof other 1\nreplicaof other 1\n").replace(b"off", b"")
