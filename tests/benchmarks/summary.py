"""The summary of 100,000 turns: time and memory, in a process of its own.

`make bench-summary` runs 1,000 scripted sessions of 100 turns through LoadGen, then times the
summary of that run. Exits with 6 when it takes longer than the design allows.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

from support import replay_rows

import edge_runner
from edge_runner.errors import GateError
from edge_runner.results.run_folder import RunFolder
from edge_runner.results.summary import summarize, write_summary

SESSIONS, TURNS = 1000, 100
LIMIT_S = 4.0


def main() -> int:
    if len(sys.argv) == 2:
        return measure(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "replay.jsonl"
        with data.open("w", encoding="utf-8") as file:
            for session in range(SESSIONS):
                for row in replay_rows(f"session-{session}", TURNS):
                    file.write(json.dumps(row) + "\n")
        config = {
            "name": "large",
            "kind": "agentic-replay",
            "workload": {"data": str(data)},
            "device": {"kind": "scripted"},
        }
        started = monotonic()
        result = edge_runner.run(config, out=Path(scratch) / "run")
        print(f"run: {result.summary.turns.completed:,} turns in {monotonic() - started:.0f} s")
        again = [sys.executable, __file__, str(result.folder.path)]
        return subprocess.run(again, check=False).returncode


def measure(path: Path) -> int:
    """Summarize one run as `edge-runner run` does, and say what it cost."""
    before = peak_mb()
    folder = RunFolder.open(path)
    started = monotonic()
    summary = summarize(folder, folder.read())
    summarized = monotonic()
    write_summary(folder, summary)
    written = monotonic()
    grown = peak_mb() - before
    size = folder.events.stat().st_size / 2**20
    print(
        f"summary of {summary.turns.completed:,} turns ({size:.0f} MB of events): "
        f"{summarized - started:.2f} s, writing {written - summarized:.2f} s, "
        f"{grown:.0f} MB more memory at the peak; limit {LIMIT_S:g} s"
    )
    return GateError.exit_code if summarized - started > LIMIT_S else 0


def peak_mb() -> float:
    """Most memory this program held so far. Not from getrusage: its figure outlives an exec, so a
    child starts with its parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
