"""`edge-runner runs`: what was run, and what came of it."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(help="List runs and show their results.", no_args_is_help=True)


@app.command("list")
def list_(
    runs_dir: Path = typer.Option(Path("runs"), "--runs-dir", help="Folder that holds the runs."),
) -> None:
    """List the runs in a folder, oldest first."""
    from edge_runner.results.run_folder import list_runs
    from edge_runner.results.table import print_runs

    runs = list_runs(runs_dir)
    if not runs:
        typer.echo(f"no run in {runs_dir}", err=True)
        return
    print_runs(runs)


@app.command("show")
def show(
    run: str = typer.Argument(help="A run's folder, its name under the runs folder, or `latest`."),
    runs_dir: Path = typer.Option(Path("runs"), "--runs-dir", help="Folder that holds the runs."),
    as_json: bool = typer.Option(False, "--json", help="Print summary.json instead of the table."),
    turns: int = typer.Option(0, "--turns", min=0, metavar="N", help="Show the first N turns too."),
) -> None:
    """Show a run's results. A run that was killed is summarized from what it left."""
    from edge_runner.results import summary
    from edge_runner.results.run_folder import find_run

    folder = find_run(run, runs_dir)
    if as_json:
        typer.echo(summary.summary_bytes(folder), nl=False)
        return

    from edge_runner.results.table import print_summary, print_turns

    print_summary(summary.read_summary(folder), folder=folder.path)
    if turns:
        print_turns(summary.turns_of(folder), limit=turns)
