"""Whether a run's numbers may be trusted, and what the command ends with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from edge_runner.errors import EXIT_INTERRUPTED, EXIT_OK, RunFailedError
from edge_runner.results.schema import (
    CrossCheck,
    LoadGenReport,
    RunRecord,
    Summary,
    TurnCounts,
    Verdict,
)

EMPTY_SHARE_LIMIT = 0.05


def judge(
    run: RunRecord,
    turns: TurnCounts,
    loadgen: LoadGenReport | None,
    cross_check: CrossCheck | None,
) -> Verdict:
    """INVALID when any rule is broken; otherwise VALID under `preset: mlperf`, and
    not-applicable under `quick`, which claims no validity.

    LoadGen's own verdict counts only under `mlperf`, and only in performance mode (it gives none
    in accuracy mode); its reasons are passed on either way. Stricter than MLPerf's reference,
    which looks at issued turns alone: here every expected turn must have been issued.
    """
    broken = [*_broken_rules(run, turns), *_doubts(run, loadgen, cross_check)]
    sound: Literal["VALID", "not-applicable"]
    sound = "VALID" if run.preset == "mlperf" else "not-applicable"
    return Verdict(
        loadgen=loadgen.verdict if loadgen else None,
        ours="INVALID" if broken else sound,
        reasons=(*broken, *(loadgen.reasons if loadgen else ())),
    )


def exit_code(summary: Summary, *, require_valid: bool = False) -> int:
    """0 done; 130 aborted; 5 a turn failed or was never issued, the run failed, or it is not VALID
    where that counts: under `preset: mlperf`, and with `require_valid` under any (where our verdict
    is not-applicable, LoadGen's must be VALID)."""
    turns, verdict = summary.turns, summary.verdict
    if summary.status == "aborted":
        return EXIT_INTERRUPTED
    lost = turns.failed or turns.aborted or turns.repeated_failed or unissued(turns)
    if summary.status == "failed" or lost or turns.expected is None:
        return RunFailedError.exit_code
    valid = "VALID" in (
        verdict.ours,
        verdict.loadgen if verdict.ours == "not-applicable" else None,
    )
    if (require_valid or summary.preset == "mlperf") and not valid:
        return RunFailedError.exit_code
    return EXIT_OK


def _broken_rules(run: RunRecord, turns: TurnCounts) -> Iterator[str]:
    if run.status == "running":
        yield "the run has no end: it was killed, or is still running"
    elif run.status != "completed":
        yield f"the run was {run.status}" if run.status == "aborted" else "the run failed"
    if turns.failed:
        yield f"{_turns(turns.failed)} failed"
    if turns.aborted:
        yield f"{_turns(turns.aborted)} aborted"
    if turns.repeated_failed:
        yield f"{_turns(turns.repeated_failed)} among the repeats failed or aborted"
    if turns.expected is None:
        yield "how many turns to expect was never known"
    elif missing := unissued(turns):
        yield f"{_turns(missing)} of {turns.expected} never issued"
    if turns.issued and turns.empty / turns.issued > EMPTY_SHARE_LIMIT:
        yield (
            f"{turns.empty} of {_turns(turns.issued)} empty "
            f"({turns.empty / turns.issued:.0%}, at most {EMPTY_SHARE_LIMIT:.0%} allowed)"
        )


def _doubts(
    run: RunRecord, loadgen: LoadGenReport | None, cross_check: CrossCheck | None
) -> Iterator[str]:
    if cross_check is not None and cross_check.clock_mismatch:
        yield f"LoadGen's clock and ours disagree: {cross_check.detail}"
    if run.preset == "mlperf" and run.mode == "performance":
        if loadgen is None or loadgen.verdict is None:
            yield "LoadGen gave no verdict"
        elif loadgen.verdict == "INVALID":
            yield "LoadGen's verdict is INVALID"


def unissued(turns: TurnCounts) -> int:
    """Expected turns that were never issued; 0 when it is not known how many to expect."""
    return 0 if turns.expected is None else max(0, turns.expected - turns.issued)


def _turns(count: int) -> str:
    return f"{count} turn" if count == 1 else f"{count} turns"
