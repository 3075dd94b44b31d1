"""Classification of error replies, with texts of real servers."""

from __future__ import annotations

import pytest

from streamclient.config.address import parse
from streamclient.errors import ResponseError
from streamclient.refusals import Refusal, is_forbidden, is_transient, redirection, refusal_of, refused, row_refused

LATER, SERVER, ROW = Refusal.LATER, Refusal.SERVER, Refusal.ROW
TEXTS = {
    "MOVED 1 127.0.0.1:1": LATER,
    "LOADING Redis is loading the dataset in memory": LATER,
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": LATER,
    "BUSYKEY Target key name already exists.": SERVER,
    "CLUSTERDOWN The cluster is down": LATER,
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": LATER,
    "NOREPLICAS Not enough good replicas to write.": LATER,
    "EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica.": LATER,
    "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.": LATER,
    "EXECABORT Transaction discarded because of previous errors.": SERVER,
    "OOM command not allowed when used memory > 'maxmemory'.": LATER,
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": SERVER,
    "NOPERM User job has no permissions to run the 'xadd' command": SERVER,
    "ERR ACL failure in script: User job has no permissions to run the 'xadd' command": SERVER,
    "ERR The user executing the script can't run this command or subcommand": SERVER,
    "ERR Error running script (call to f_1): @user_script:1: Script killed by user with SCRIPT KILL...": SERVER,
    "NOSCRIPT No matching script. Please use EVAL.": SERVER,
    "ERR unknown command 'XADD', with args beginning with: 's' ": SERVER,
    "WRONGTYPE Operation against a key holding the wrong kind of value": ROW,
    "ERR The ID specified in XADD is equal or smaller than the target stream top item": ROW,
    "ERR The stream has exhausted the last possible ID, unable to add more items": ROW,
    "the stream s does not exist": ROW,
}


@pytest.mark.parametrize("text", TEXTS)
def test_only_an_error_about_a_row_rejects_the_row(text: str) -> None:
    """Only an error about a row itself rejects the row; temporary errors are retried, and others reported unchanged."""
    meaning, address = TEXTS[text], parse("redis://localhost")
    assert (refusal_of(text), is_transient(ResponseError(text))) == (meaning, meaning is LATER)
    problem = row_refused(address, 7, text)
    assert (problem.condition == "ROW_REFUSED") == (meaning is ROW)
    if meaning is ROW:
        assert "Row 7 " in str(problem)
        assert f"{text}. The rows of earlier chunks" in str(problem)
    assert (refused(address, "XADD", text).condition == "NOT_PERMITTED") == (
        "no permissions" in text or "can't run" in text
    )


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("READONLY You can't write against a read only replica.", "name its primary, or the Sentinels"),
        ("OOM command not allowed when used memory > 'maxmemory'.", "it has reached its maxmemory"),
        ("MISCONF Redis is configured to save RDB snapshots", "it cannot save its data"),
        ("NOREPLICAS Not enough good replicas to write.", "min-replicas-to-write"),
        ("ERR DB index is out of range", "range. Read the server's reply"),
    ],
)
def test_a_refusal_says_what_its_first_word_means(text: str, meaning: str) -> None:
    """The server's text is followed by the meaning of its first word, unless the text already states it."""
    problem = refused(parse("redis://localhost"), "XADD", text)
    assert problem.condition == "SERVER_REFUSED"
    assert meaning in str(problem)


class _Entries(list[bytes]):
    """A reply with large entries, whose text takes seconds and a multiple of its memory."""

    def __repr__(self) -> str:
        raise AssertionError("a reply that is no error became a text")


def test_only_errors_become_texts() -> None:
    """A redirection is found among replies without making texts of replies with entries."""
    ask, moving = (
        ResponseError("ASK 5 127.0.0.1:7001"),
        ResponseError("TRYAGAIN Multiple keys request during rehashing"),
    )
    assert redirection([_Entries(), b"ASK 1 x", None]) is None
    assert redirection([_Entries(), ask, _Entries()]) == str(ask)
    assert redirection([ask, moving, _Entries()]) is None
    assert not is_forbidden(_Entries())
    assert not is_transient(_Entries())
