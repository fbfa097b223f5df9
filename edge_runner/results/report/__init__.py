"""`report.html`: one run as one page that opens anywhere, with no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from edge_runner.errors import RunFailedError
from edge_runner.results.events import TurnEvent, read_turns
from edge_runner.results.files import write_atomic
from edge_runner.results.run_folder import RunFolder
from edge_runner.results.schema import RunRecord, Summary
from edge_runner.results.summary import turns_of

REPORT_FILE = "report.html"


def write_report(folder: RunFolder, summary: Summary, out: Path | None = None) -> Path:
    """Write the run's page to `out`, by default the folder's `report.html`; returns its path.

    Raises DataError when the folder's record or turns are damaged, RunFailedError when the page
    cannot be written.
    """
    path = out if out is not None else folder.path / REPORT_FILE
    document = render(summary, folder.read(), _rows(folder, summary))
    try:
        write_atomic(path, document.encode())
    except OSError as error:
        raise RunFailedError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def render(summary: Summary, run: RunRecord, rows: Iterable[TurnEvent]) -> str:
    """The page. `rows` are the run's turns, read once; a large run's are grouped and sampled, and
    the page says so, which keeps page and memory bounded."""
    from edge_runner.results.report.page import page
    from edge_runner.results.report.turns import Turns

    expected = summary.turns.issued + summary.turns.repeated
    return page(summary, run, Turns.collect(rows, expected))


def _rows(folder: RunFolder, summary: Summary) -> Iterator[TurnEvent]:
    if summary.per_turn:
        return iter(summary.per_turn)
    if summary.per_turn_file is not None and folder.turns.exists():
        return read_turns(folder.turns)
    return turns_of(folder)
