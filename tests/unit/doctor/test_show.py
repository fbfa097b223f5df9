from __future__ import annotations

import io

import pytest
from rich.console import Console

from edge_runner.doctor.check import Check, note, ok, problem, unavailable
from edge_runner.doctor.examine import Examination
from edge_runner.doctor.show import print_examination


def shown(*checks: Check, width: int = 80, **console: bool) -> str:
    out = io.StringIO()
    print_examination(
        Examination({"area": list(checks)}), Console(file=out, width=width, **console)
    )
    return out.getvalue()


def test_every_state_is_a_word_and_advice_follows() -> None:
    text = shown(
        ok("a", "fine"),
        note("b", "odd", "do this"),
        problem("c", "bad", "mend it"),
        unavailable("d", "no sensor", "nothing"),
    )
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0] == "area"
    assert lines[1].split() == ["ok", "a", "fine"]
    assert lines[2].split() == ["note", "b", "odd"]
    assert lines[3].split() == ["->", "do", "this"]
    assert lines[4].split() == ["PROBLEM", "c", "bad"]
    assert lines[6].split() == ["unavailable", "d", "no", "sensor"]
    assert lines[-1] == "1 problem, 1 note"
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [200, 80, 60])
def test_it_fits(width: int) -> None:
    path = "/a/very/long/path" * 20
    text = shown(ok("a" * 30, path), note("b", "長い" * 60, path), width=width)
    assert max(Console().render_str(line).cell_len for line in text.splitlines()) <= min(width, 80)
    assert text.replace("\n", "").replace(" ", "").count("/a/very/long/path"[:8]) == 40


def test_foreign_text_is_literal() -> None:
    text = shown(note("[bold]x", "[red]CPU[/red] :smile: \x1b[31m\u202e", "[link=x]y"))
    assert "[bold]x" in text
    assert "[red]CPU[/red] :smile: \\x1b[31m\\u202e" in text
    assert "[link=x]y" in text
