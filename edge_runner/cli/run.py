"""`edge-runner run`: one configuration, one run folder, one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from edge_runner.bench.run import RunResult
    from edge_runner.cli.progress import RunView
    from edge_runner.config import RunConfig


def run(
    config: str = typer.Argument(help="A configuration file, or the name of a shipped one."),
    sets: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Change one key, such as workload.sessions=1."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="The run's folder: new or empty. Default: runs/<time>-<name>."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print summary.json instead of the table."),
    offline: bool = typer.Option(False, "--offline", help="Use only what is already fetched."),
    require_valid: bool = typer.Option(
        False, "--require-valid", help="Exit with 5 unless every verdict is VALID."
    ),
) -> None:
    """Run a configuration through LoadGen and show where the time went."""
    from edge_runner.cli.progress import RunView
    from edge_runner.config import load_config

    loaded = load_config(config, sets)
    with RunView() as view:
        result = execute(loaded, view, out=out, offline=offline, require_valid=require_valid)
    finish(result, as_json=as_json)


def execute(
    config: RunConfig,
    view: RunView,
    *,
    out: Path | None,
    offline: bool,
    require_valid: bool = False,
) -> RunResult:
    """Run `config`, shown in `view`; Ctrl-C stops it."""
    from edge_runner.bench.run import Run
    from edge_runner.cli.progress import stopping

    a_run = Run(
        config,
        out=out,
        offline=offline,
        require_valid=require_valid,
        on_event=view.event,
        on_progress=view.fetch,
        on_report=view.say,
    )
    with stopping(a_run, view):
        return a_run.execute()


def finish(result: RunResult, *, as_json: bool) -> NoReturn:
    """Print the result on stdout and end with its exit code."""
    if as_json:
        typer.echo(result.folder.summary.read_bytes(), nl=False)
    else:
        from edge_runner.results.table import print_summary

        print_summary(result.summary, folder=result.folder.path)
        typer.echo(f"report     {result.report}")
    if result.error:
        typer.echo(f"error: {result.error}", err=True)
    raise typer.Exit(result.exit_code)
