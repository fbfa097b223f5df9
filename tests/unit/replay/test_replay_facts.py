"""What `data check` counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, replay_rows

from edge_runner.workloads.replay_data import read_replay
from edge_runner.workloads.replay_facts import facts_of

OFFICIAL = ROOT.parent / "shared/data/agentic/mlperf-edge-agentic.jsonl"


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_counts(tmp_path: Path) -> None:
    rows = replay_rows("short", 1) + replay_rows("long", 3, delay_s=1.5)
    rows[-1]["tool_calls"][0]["function"]["arguments"] = '{"command": "unheard-of"}'
    facts = facts_of(read_replay(write(tmp_path / "a.jsonl", rows)))
    assert (facts.sessions, facts.turns, facts.replies, facts.scorable) == (2, 4, 4, 3)
    assert facts.delay_ns == 3_000_000_000
    assert (facts.longest_session, facts.longest_session_turns) == ("long", 3)
    call = len("Look further.") + len('{"command": "cat file0.py"}')
    prompt = len("You are terse.") + len("List the files.") + 2 * (call + len("a.py\n" * 20))
    assert (facts.largest_prompt_session, facts.largest_prompt_characters) == ("long", prompt)


def test_a_last_turn_without_a_reply(tmp_path: Path) -> None:
    rows = replay_rows("one", 2)[:-1]
    facts = facts_of(read_replay(write(tmp_path / "a.jsonl", rows)))
    assert (facts.turns, facts.replies) == (2, 1)


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official replay set is not here")
def test_the_official_set() -> None:
    facts = facts_of(read_replay(OFFICIAL))
    assert (facts.sessions, facts.turns, facts.scorable) == (20, 1007, 1006)
    assert round(facts.delay_ns / 1e9, 1) == 636.4
