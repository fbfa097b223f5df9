"""What a check says: one line, and what to do about it unless all is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edge_runner.errors import EdgeRunnerError, UnavailableError

State = Literal["ok", "note", "problem", "unavailable"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line. Built by the four functions below, so that only `ok` comes without advice.

    state: `ok`; `note`, it works, but one should know; `problem`, the quickstart cannot work;
        `unavailable`, it is not there or cannot be read, and `value` says why.
    exit_code: of a problem, what the command ends with; 0 otherwise.
    """

    what: str
    state: State
    value: str
    advice: str = ""
    exit_code: int = 0


def ok(what: str, value: str) -> Check:
    return Check(what, "ok", value)


def note(what: str, value: str, advice: str) -> Check:
    return Check(what, "note", value, advice)


def problem(
    what: str, value: str, advice: str, error: type[EdgeRunnerError] = UnavailableError
) -> Check:
    """`error` is what a run would raise: it decides the exit code."""
    return Check(what, "problem", value, advice, error.exit_code)


def unavailable(what: str, why: str, advice: str) -> Check:
    return Check(what, "unavailable", why, advice)
