"""Records replay sessions: runs the commands of a script and writes down what came back.

Nothing is made up and nothing is cleaned: outputs, return codes and durations are those of the run.
An output that names this machine (its folders, its host) is refused, not edited; the script then
needs another command. Needs bash and git (POSIX).

    python -m edge_runner.workloads.recorder SCRIPT.yaml OUT.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

import msgspec

from edge_runner.errors import DataError, EdgeRunnerError, UnavailableError
from edge_runner.workloads.replay_data import (
    AssistantRow,
    FunctionCall,
    FunctionSpec,
    RecordedCall,
    Row,
    ToolEntry,
    ToolResult,
    ToolRow,
    UserRow,
    read_replay,
    write_session,
)

MAX_OUTPUT_BYTES = 64 << 10
MAX_FILE_KIB = 64 << 10
DEFAULT_TIMEOUT_S = 120.0

BASH_TOOL = ToolEntry(
    FunctionSpec(
        name="bash",
        description="Run a command in a new bash shell, in the project's folder",
        parameters={
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command to run"}},
            "required": ["command"],
        },
    )
)


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """What the assistant thinks, and the command it runs."""

    reasoning: str
    command: str


class SessionScript(msgspec.Struct, forbid_unknown_fields=True):
    """One session: the user's task, the steps, and the closing answer (a reply with no call)."""

    id: str
    task: str
    steps: list[Step]
    answer: str


class RecordingScript(msgspec.Struct, forbid_unknown_fields=True):
    """Sessions that share a system prompt. Each starts from a fresh copy of the project, whose
    `files` are given as text by relative path."""

    system: str
    files: dict[str, str]
    sessions: list[SessionScript]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What one command did. `output` is stdout and stderr as they came, in one stream."""

    returncode: int
    output: str
    duration_ns: int


def record_session(
    script: SessionScript, system: str, folder: Path, *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> list[Row]:
    """Run every step in `folder` (which the commands change) and return the session's rows.

    Raises DataError when an output names this machine, UnavailableError without bash.
    """
    rows: list[Row] = [
        UserRow(
            conversation_id=script.id,
            turn=1,
            content=script.task,
            system=system,
            tools=[BASH_TOOL],
        )
    ]
    for number, step in enumerate(script.steps, 1):
        result = run_command(step.command, folder, timeout_s)
        for private in _private_names(folder):
            if private in result.output:
                raise DataError(
                    f"session {script.id!r}, step {number}: the output names {private!r}; "
                    "choose a command whose output does not"
                )
        call_id = f"call_{number}"
        arguments = json.dumps({"command": step.command}, ensure_ascii=False)
        rows += (
            AssistantRow(
                conversation_id=script.id,
                turn=len(rows) + 1,
                reasoning_content=step.reasoning,
                tool_calls=[RecordedCall(call_id, FunctionCall("bash", arguments))],
            ),
            ToolRow(
                conversation_id=script.id,
                turn=len(rows) + 2,
                tool_results=[ToolResult(call_id, _as_tool_result(result))],
                delay_seconds=round(result.duration_ns / 1e9, 5),
            ),
        )
    rows.append(AssistantRow(conversation_id=script.id, turn=len(rows) + 1, content=script.answer))
    return rows


def record_set(script_file: Path, out: Path) -> int:
    """Record all sessions of a script file, each in a fresh copy of its project under git, and
    write them to `out`. Returns how many. Raises DataError for a bad script or output."""
    try:
        script = msgspec.yaml.decode(script_file.read_bytes(), type=RecordingScript)
    except OSError as error:
        raise DataError(f"{script_file}: cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise DataError(f"{script_file}: {' '.join(str(error).split())}") from None
    rows: list[Row] = []
    for session in script.sessions:
        with tempfile.TemporaryDirectory(prefix="recording-") as scratch:
            folder = Path(scratch)
            _lay_out(script.files, folder)
            rows += record_session(session, script.system, folder)
    write_session(out, rows)
    return len(read_replay(out).conversations)


def run_command(command: str, folder: Path, timeout_s: float = DEFAULT_TIMEOUT_S) -> CommandResult:
    """Run one command in a new bash, without a terminal or the user's own settings.

    At `timeout_s` its process group is killed and the return code is 124. Files it writes are
    limited to 64 MiB; of its output the first 64 KiB are kept, and the rest is counted.
    """
    bash = shutil.which("bash")
    if bash is None or os.name != "posix":
        raise UnavailableError("recording needs bash on a POSIX system")
    limited = f'ulimit -f {MAX_FILE_KIB}; exec "$0" -c "$1"'
    with tempfile.TemporaryFile() as captured:
        started_ns = monotonic_ns()
        process = subprocess.Popen(
            [bash, "-c", limited, bash, command],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=captured,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            returncode = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            returncode = 124
        finally:
            duration_ns = monotonic_ns() - started_ns
            with suppress(ProcessLookupError, PermissionError):  # nothing of the group is left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        size = captured.seek(0, os.SEEK_END)
        captured.seek(0)
        output = captured.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")
    if size > MAX_OUTPUT_BYTES:
        output += f"\n[{size - MAX_OUTPUT_BYTES} more bytes]\n"
    return CommandResult(returncode, output, duration_ns)


def _as_tool_result(result: CommandResult) -> str:
    output = result.output
    if output and not output.endswith("\n"):
        output += "\n"
    return f"<returncode>{result.returncode}</returncode>\n<output>\n{output}</output>"


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _private_names(folder: Path) -> set[str]:
    names = {str(folder), str(folder.resolve()), str(Path.home()), sys.prefix, socket.gethostname()}
    return {name for name in names if len(name) > len("/x")}


def _lay_out(files: Mapping[str, str], folder: Path) -> None:
    git = shutil.which("git")
    if git is None:
        raise UnavailableError("recording needs git")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    author = ("-c", "user.name=recorder", "-c", "user.email=recorder@example.invalid")
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "-m", "start")):
        subprocess.run([git, *author, *arguments], cwd=folder, env=_environment(folder), check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m edge_runner.workloads.recorder", description="Record replay sessions."
    )
    parser.add_argument("script", type=Path, help="YAML: system prompt, files, sessions")
    parser.add_argument("out", type=Path, help="JSON lines file to write")
    options = parser.parse_args(arguments)
    try:
        count = record_set(options.script, options.out)
    except EdgeRunnerError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stderr.write(f"{options.out}: {count} sessions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
