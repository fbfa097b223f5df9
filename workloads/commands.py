"""The replay's inline score: how far a turn's shell commands use the executables that the recorded
reply used.

Multiset intersection over union, by the rules of the MLPerf v6.1 Edge Agentic reference. It is a
weak signal of quality (it looks at `grep`, not at what is searched for); say so where it is shown.
Here-documents get no treatment of their own: their lines are split like any others. The values
known for the official set (0.3235 for the previous turn's recorded calls, 0.2625 for always
`python`) come out of exactly that reading.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable

from edge_runner.messages import ToolCall

SHELL_TOOL = "bash"
SCORE_DIGITS = 4

_FAMILIES = {
    "python": "python python2 python3 py",
    "pip": "pip pip3",
    "cat": "cat less more",
    "grep": "grep egrep fgrep rg ag",
    "awk": "awk gawk",
    "find": "find locate",
    "curl": "curl wget",
    "apt": "apt apt-get",
    "source": "source .",
    "sphinx": "sphinx-build sphinx-quickstart",
}
_THEMSELVES = (
    "pytest pylint cython make conda head tail wc diff sed tr sort uniq cut ls xargs cp mv rm "
    "mkdir touch tee which alias unset export git true false timeout date yum"
)
_EXECUTABLES = {name: name for name in _THEMSELVES.split()} | {
    name: family for family, names in _FAMILIES.items() for name in names.split()
}
"""Every executable that counts, with the family it counts as."""

_WRAPPERS = {"env", "time", "nice", "sudo", "exec", "command"}
_QUOTE = re.compile(r"['\"`]")
_QUOTED = {
    "'": re.compile(r"'[^']*'"),
    '"': re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL),
    "`": re.compile(r"`[^`]*`"),
}
_SEPARATOR = re.compile(r"\|\||\||&&|;|\n")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_VERSION = re.compile(r"\.\d+(\.\d+)?$")


def executables(command: str) -> Counter[str]:
    """The known executables that a shell command line starts, by family. Never raises."""
    parts = _SEPARATOR.split(_without_quoted(command))
    return Counter(name for part in parts if (name := _executable(part)) is not None)


def executables_of(calls: Iterable[ToolCall]) -> Counter[str]:
    """The known executables of all `bash` calls of a turn. Arguments that are not a JSON object
    with a `command` (or `cmd`) text count as none."""
    found: Counter[str] = Counter()
    for call in calls:
        if call.name == SHELL_TOOL:
            found.update(executables(_command(call.arguments)))
    return found


def command_iou(recorded: Iterable[ToolCall], made: Iterable[ToolCall]) -> float | None:
    """Sum of the lesser counts over sum of the greater ones; None when nothing recorded counts."""
    expected = executables_of(recorded)
    if not expected:
        return None
    actual = executables_of(made)
    return (expected & actual).total() / (expected | actual).total()


def run_score(scores: Iterable[float | None]) -> float | None:
    """The mean over scorable turns, rounded as the reference does; None when there are none."""
    scorable = [score for score in scores if score is not None]
    return round(sum(scorable) / len(scorable), SCORE_DIGITS) if scorable else None


def _command(arguments: str) -> str:
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(values, dict):
        return ""
    command = values.get("command") or values.get("cmd")
    return command if isinstance(command, str) else ""


def _without_quoted(command: str) -> str:
    """Each quoted span becomes a space, leftmost first; an unclosed quote stays.

    One pass: once a quote is not closed, no later one of its kind is, so none is looked for.
    """
    kept: list[str] = []
    start = position = 0
    closed = set(_QUOTED)
    while (quote := _QUOTE.search(command, position)) is not None:
        kind = quote[0]
        span = _QUOTED[kind].match(command, quote.start()) if kind in closed else None
        if span is None:
            closed.discard(kind)
            position = quote.end()
            continue
        kept += command[start : span.start()], " "
        start = position = span.end()
    kept.append(command[start:])
    return "".join(kept)


def _executable(part: str) -> str | None:
    for word in part.split():
        if word in _WRAPPERS or _ASSIGNMENT.match(word):
            continue
        leaf = word.rpartition("/")[2].lower()
        return _EXECUTABLES.get(_VERSION.sub("", leaf))
    return None
