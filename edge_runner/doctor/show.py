"""An examination as text: grouped by area, within 80 columns, readable without colour.

Values come from files, environment and other programs: they are shown literally, control characters
as escapes.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edge_runner.doctor.check import Check, State
from edge_runner.doctor.examine import Examination
from edge_runner.results.table import visible

WIDTH = 80
STATE_WIDTH = 11
WHAT_WIDTH = 15

_WORDS: dict[State, str] = {"problem": "PROBLEM"}
_STYLES: dict[State, str] = {
    "ok": "green",
    "note": "yellow",
    "problem": "bold red",
    "unavailable": "dim",
}


def print_examination(examination: Examination, console: Console | None = None) -> None:
    """Every line, then the verdict as the last one."""
    console = console or Console()
    width = min(WIDTH, console.width)
    for area, checks in examination.areas.items():
        console.print(Text(area, style="bold"))
        console.print(_lines(checks), width=width)
    style = _STYLES["problem" if examination.exit_code else "ok"]
    console.print(Text(examination.verdict, style=style))


def _lines(checks: list[Check]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(width=STATE_WIDTH)
    table.add_column(width=WHAT_WIDTH, overflow="fold")
    table.add_column(overflow="fold", ratio=1)
    for check in checks:
        state = Text(_WORDS.get(check.state, check.state), style=_STYLES[check.state])
        table.add_row("", state, Text(visible(check.what)), Text(visible(check.value)))
        if check.advice:
            table.add_row("", "", "", Text(f"-> {visible(check.advice)}", style="dim"))
    return table
