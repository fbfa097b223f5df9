"""`edge-runner data`: list, pull, locate, check and record data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edge_runner.cli.models import (
    Json,
    Names,
    Offline,
    print_entries,
    print_facts,
    print_json,
    print_path,
    pull_entries,
)

if TYPE_CHECKING:
    from edge_runner.workloads.recorder import OnStep
    from edge_runner.workloads.replay_data import Row

app = typer.Typer(no_args_is_help=True, help="Data sets: list, pull, path, check, record.")

SYSTEM = (
    "You work on a project through one tool, bash, which runs a command in a new shell in the "
    "project's folder and returns its exit code and its output."
)


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


@app.command()
def check(
    file: Annotated[
        str, typer.Argument(help="A replay file (JSON lines), or a name as shown by `list`.")
    ],
    as_json: Json = False,
) -> None:
    """Check a replay file row by row and say what is in it; exit 4 naming the first wrong line."""
    from dataclasses import asdict

    from edge_runner.catalog import resolve_data
    from edge_runner.workloads.replay_data import read_replay
    from edge_runner.workloads.replay_facts import facts_of

    found = Path(file).expanduser()
    facts = facts_of(
        read_replay(found if found.exists() else resolve_data(file, offline=True).path)
    )
    if as_json:
        print_json(asdict(facts))
        return
    lacking = facts.turns - facts.replies
    print_facts(
        {
            "sessions": facts.sessions,
            "turns": f"{facts.turns} (longest session {facts.longest_session!r}: "
            f"{facts.longest_session_turns})",
            "scorable turns": facts.scorable,
            "without a reply": f"{lacking} (output_length: recorded needs one for all)"
            if lacking
            else "",
            "recorded delay": f"{facts.delay_ns / 1e9:.1f} s",
            "largest prompt": f"{facts.largest_prompt_characters} characters "
            f"(session {facts.largest_prompt_session!r})",
        },
        as_json=False,
    )


@app.command()
def record(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT.yaml OUT.jsonl | OUT.jsonl -- 'COMMAND' ...",
            help="A script and where to write; with --in, where to write and the commands.",
            show_default=False,
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--in",
            metavar="FOLDER",
            help="Run the commands in a copy of this folder.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    session: Annotated[str, typer.Option(help="With --in: the session's id.")] = "session-1",
    task: Annotated[str, typer.Option(help="With --in: what the user asks for.")] = "",
    answer: Annotated[str, typer.Option(help="With --in: the closing reply.")] = "Done.",
    system: Annotated[str, typer.Option(help="With --in: the system prompt.")] = SYSTEM,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="With --in: seconds a command may take.")
    ] = 120.0,
    append: Annotated[bool, typer.Option("--append", help="Add to OUT.jsonl.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace OUT.jsonl.")] = False,
) -> None:
    """Run commands for real and write what came back as replay sessions.

    The commands run with your rights, without a sandbox. An output that names this machine (its
    folders, its host) is refused.
    """
    from edge_runner.cli.bars import Bars
    from edge_runner.errors import UsageError
    from edge_runner.workloads.recorder import record_set, save

    if folder is None:
        if len(arguments) != 2:
            raise UsageError(
                "give SCRIPT.yaml OUT.jsonl, or --in FOLDER OUT.jsonl -- 'COMMAND' ..."
            )
        out = Path(arguments[1])
    else:
        out = Path(arguments[0])
    _check_target(out, session if folder else None, append=append, replace=replace)
    with Bars() as bars:
        if folder is None:
            rows = record_set(Path(arguments[0]), on_step=bars.say)
        else:
            rows = _record_commands(
                folder, session, task, arguments[1:], answer, system, timeout_s, bars.say
            )
    count = len(save(out, rows, append=append).conversations)
    plural = "" if count == 1 else "s"
    typer.echo(f"{count} session{plural}; check: edge-runner data check {out}", err=True)
    typer.echo(str(out))


def _record_commands(
    folder: Path,
    session: str,
    task: str,
    commands: list[str],
    answer: str,
    system: str,
    timeout_s: float,
    on_step: OnStep,
) -> list[Row]:
    from edge_runner.errors import UsageError
    from edge_runner.workloads.recorder import SessionScript, Step, record_folder

    if not commands:
        raise UsageError("no command to record: edge-runner data record ... OUT.jsonl -- 'ls' ...")
    if not task:
        raise UsageError("--task: say what the user asks for; it is the session's first message")
    steps = [Step(reasoning="", command=command) for command in commands]
    script = SessionScript(id=session, task=task, steps=steps, answer=answer)
    return record_folder(folder, script, system, timeout_s=timeout_s, on_step=on_step)


def _check_target(out: Path, session: str | None, *, append: bool, replace: bool) -> None:
    """Said before minutes are spent on recording."""
    from edge_runner.errors import UsageError
    from edge_runner.workloads.replay_data import read_replay

    if not out.parent.is_dir():
        raise UsageError(f"{out.parent} does not exist; make the folder first")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file")
    if append and replace:
        raise UsageError("--append and --replace contradict each other")
    if out.exists() and not (append or replace):
        raise UsageError(f"{out} exists: --append adds to it, --replace overwrites it")
    if append and out.exists():
        taken = {one.id for one in read_replay(out).conversations}
        if session in taken:
            raise UsageError(f"--session: {out} has a session {session!r} already")
