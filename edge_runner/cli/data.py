"""`edge-runner data`: list, pull and locate data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from edge_runner.cli.models import Json, Names, Offline, print_entries, print_path, pull_entries

app = typer.Typer(no_args_is_help=True, help="Data sets: list, pull, path.")


@app.command("list")
def list_data(as_json: Json = False) -> None:
    """Show every data set of the catalog and whether it is on this machine."""
    print_entries("data", as_json)


@app.command()
def pull(names: Names, offline: Offline = False) -> None:
    """Fetch data sets into the cache and print their paths."""
    pull_entries("data", names, offline)


@app.command()
def path(name: Annotated[str, typer.Argument(help="A name as shown by `list`.")]) -> None:
    """Print where a data set lies; exit 4 if it was not pulled."""
    print_path("data", name)
