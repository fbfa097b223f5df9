"""`edge-runner doctor`: is this machine ready, and what would disturb a measurement on it?"""

from __future__ import annotations

import typer


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print the checks as JSON."),
) -> None:
    """Check this machine; each line says what to do if something is wrong.

    Exit code 3 if a runtime that the quickstart needs is missing, 4 if the model cache cannot be
    used, else 0. No model is loaded and nothing is changed.
    """
    from edge_runner.doctor.examine import examine

    examination = examine()
    if as_json:
        import json

        typer.echo(json.dumps(examination.as_json(), indent=2))
    else:
        from edge_runner.doctor.show import print_examination

        print_examination(examination)
    raise typer.Exit(examination.exit_code)
