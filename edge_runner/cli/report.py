"""`edge-runner report`: a run as one page."""

from __future__ import annotations

from pathlib import Path

import typer


def report(
    run: str = typer.Argument(help="A run's folder, its name under the runs folder, or `latest`."),
    runs_dir: Path = typer.Option(Path("runs"), "--runs-dir", help="Folder that holds the runs."),
    out: Path | None = typer.Option(
        None, "--out", metavar="FILE", help="The page's file. Default: report.html in the run."
    ),
    open_: bool = typer.Option(False, "--open", help="Open the page in a browser, too."),
) -> None:
    """Write a run's report, one page that opens anywhere, and print its path."""
    from edge_runner.results.report import write_report
    from edge_runner.results.run_folder import find_run
    from edge_runner.results.summary import read_summary

    folder = find_run(run, runs_dir)
    path = write_report(folder, read_summary(folder), out)
    typer.echo(path)
    if open_:
        import webbrowser

        if not webbrowser.open(path.resolve().as_uri()):
            typer.echo(f"no browser to open it in: open {path} yourself", err=True)
