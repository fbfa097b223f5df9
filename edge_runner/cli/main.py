"""The command. One module a verb; a verb's work is imported when it runs, so help is instant."""

from __future__ import annotations

import io
import sys

import typer

from edge_runner.cli import bench, data, doctor, models, report, run, runs
from edge_runner.errors import EXIT_INTERRUPTED, EdgeRunnerError

app = typer.Typer(
    name="edge-runner",
    help="Run agentic and RAG workloads on on-device models and measure them as MLPerf does.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.add_typer(bench.app, name="bench")
app.add_typer(runs.app, name="runs")
app.add_typer(models.app, name="models")
app.add_typer(data.app, name="data")


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"edge-runner {version('edge-runner')}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    del version


def main() -> None:
    """The entry point: every error of ours is one line on stderr and its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a console that is not UTF-8
    try:
        app()
    except EdgeRunnerError as error:
        sys.exit(_fail(f"error: {error}", error.exit_code))
    except KeyboardInterrupt:
        sys.exit(_fail("stopped", EXIT_INTERRUPTED))
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; nothing is left to say
        sys.exit(1)


def _fail(text: str, code: int) -> int:
    """Messages may quote names and contents of files: shown literally, on one line."""
    from edge_runner.results.table import visible

    typer.echo(visible(text), err=True)
    return code
