"""`edge-runner bench`: your own model on a recorded workload, sized to a few minutes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

app = typer.Typer(help="Benchmark your own model in a few minutes.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Benchmark your own model in a few minutes."""


@app.command()
def agentic(
    model: str = typer.Option(..., "--model", help="A GGUF file, or a model's catalog name."),
    minutes: float = typer.Option(5.0, "--minutes", min=0.5, help="How long it may take."),
    sets: list[str] = typer.Option(
        [],
        "--set",
        metavar="KEY=VALUE",
        help="Change one key, such as device.threads=4.",
    ),
    out: Path | None = typer.Option(None, "--out", help="The run's folder: new or empty."),
    as_json: bool = typer.Option(False, "--json", help="Print summary.json instead of the table."),
    offline: bool = typer.Option(False, "--offline", help="Use only what is already fetched."),
) -> None:
    """Replay recorded coding sessions on MODEL, as many as fit the time."""
    from edge_runner.bench.sizing import (
        CALIBRATION_SETS,
        SMALLEST,
        Speed,
        base_config,
        choose,
        plans,
    )
    from edge_runner.cli.progress import RunView
    from edge_runner.cli.run import execute, finish
    from edge_runner.config import load_config
    from edge_runner.errors import EXIT_INTERRUPTED, ConfigError

    base = base_config("bench-agentic", {"kind": "llama-cpp"}, model)
    wanted = load_config(base, sets)
    if wanted.scenario.preset != "quick":
        raise ConfigError("bench is sized to fit a time: for preset mlperf use `edge-runner run`")
    with RunView() as view:
        view.say("calibrating on two turns, to choose how much to run")
        config = load_config(base, [*sets, *CALIBRATION_SETS])
        with tempfile.TemporaryDirectory() as scratch:
            calibration = execute(config, view, out=Path(scratch) / "run", offline=offline)
        if calibration.exit_code == EXIT_INTERRUPTED:
            raise typer.Exit(EXIT_INTERRUPTED)
        # A calibration that failed is not the end: the run itself will show why, and keep it.
        size = SMALLEST
        if not calibration.exit_code:
            size = choose(minutes * 60, Speed.of(calibration.summary), plans(wanted))
        view.say("sized to " + (", ".join(size.sets()) or "the whole set"))
        view.reset()
        config = load_config(base, [*size.sets(), *sets])
        result = execute(config, view, out=out, offline=offline)
    finish(result, as_json=as_json)
