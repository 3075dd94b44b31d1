"""Findings of a check-up of a server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


STYLES = {
    Verdict.OK.value: "green",
    Verdict.NOTE.value: "",
    Verdict.WARNING.value: "yellow",
    Verdict.PROBLEM.value: "bold red",
}


@dataclass(frozen=True)
class Finding:
    """One finding: its subject, its state, and advice (how the connector copes, or what to change)."""

    subject: str
    verdict: Verdict
    found: str
    advice: str = ""
