"""Records replay sessions: runs commands and writes down what came back.

Nothing is made up and nothing is cleaned: outputs, return codes and durations are those of the run.
A session that names this machine (its folders, its host) is refused, not edited; it then needs
another command. The commands run with the user's own rights, in a copy of the project but not in a
sandbox. Needs bash, and git for a script's projects (POSIX).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

import msgspec

from edge_runner.errors import DataError, UnavailableError
from edge_runner.workloads.replay_data import (
    AssistantRow,
    FunctionCall,
    FunctionSpec,
    RecordedCall,
    ReplaySet,
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
MAX_FOLDER_BYTES = 2 << 30
DEFAULT_TIMEOUT_S = 120.0

OnStep = Callable[[str], None]
"""Gets a line for each command that was run."""

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
    script: SessionScript,
    system: str,
    folder: Path,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    private: Iterable[str] = (),
    on_step: OnStep | None = None,
) -> list[Row]:
    """Run every step in `folder` (which the commands change) and return the session's rows.

    Raises DataError when a text of it names this machine or one of `private`, UnavailableError
    without bash.
    """
    names = _private_names(folder) | set(private)
    where = f"session {script.id!r}"
    _refuse(
        f"{where}: the system prompt, task or answer", names, system, script.task, script.answer
    )
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
        at = f"{where}, step {number}"
        _refuse(f"{at}: the command or its reasoning", names, step.command, step.reasoning)
        result = run_command(step.command, folder, timeout_s)
        if on_step is not None:
            took_s = result.duration_ns / 1e9
            on_step(
                f"{script.id} {number}/{len(script.steps)}: exit {result.returncode} after "
                f"{took_s:.2f} s: {' '.join(step.command.split())[:60]}"
            )
        _refuse(f"{at}: the output", names, result.output)
        call_id = f"call_{number}"
        arguments = json.dumps({"command": step.command}, ensure_ascii=False)
        rows += (
            AssistantRow(
                conversation_id=script.id,
                turn=len(rows) + 1,
                reasoning_content=step.reasoning or None,
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


def record_set(script_file: Path, *, on_step: OnStep | None = None) -> list[Row]:
    """The rows of all sessions of a script file, each recorded in a fresh copy of its project
    under git. Raises DataError for a bad script or output."""
    try:
        script = msgspec.yaml.decode(script_file.read_bytes(), type=RecordingScript)
    except OSError as error:
        raise DataError(f"{script_file}: cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise DataError(f"{script_file}: {' '.join(str(error).split())}") from None
    rows: list[Row] = []
    for session in script.sessions:
        with _scratch() as folder:
            _lay_out(script.files, folder)
            rows += record_session(session, script.system, folder, on_step=on_step)
    return rows


def record_folder(
    source: Path,
    script: SessionScript,
    system: str,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    on_step: OnStep | None = None,
) -> list[Row]:
    """The rows of one session recorded in a copy of `source`, which stays as it is.

    Raises DataError when the folder cannot be copied or a text names this machine.
    """
    with _scratch() as scratch:
        folder = scratch / (source.resolve().name or "project")
        private = {
            str(each) for path in (source, scratch) for each in (path.absolute(), path.resolve())
        }
        try:
            size = sum(path.lstat().st_size for path in _files_below(source))
            if size > MAX_FOLDER_BYTES:
                raise DataError(
                    f"{source} has {size} bytes, too much to copy (at most {MAX_FOLDER_BYTES}); "
                    "record in a smaller folder"
                )
            shutil.copytree(source, folder, symlinks=True, ignore=_ignore_special)
        except OSError as error:
            raise DataError(f"{source} cannot be copied: {_first_reason(error)}") from None
        return record_session(
            script, system, folder, timeout_s=timeout_s, private=private, on_step=on_step
        )


def save(out: Path, rows: Iterable[Row], *, append: bool = False) -> ReplaySet:
    """Write rows to a replay file, or behind those it has, once all of it reads back right.

    Raises DataError, and then `out` is as it was.
    """
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        if append and out.exists():
            shutil.copyfile(out, temporary)
            _end_with_newline(temporary)
        write_session(temporary, rows, append=append)
        saved = read_replay(temporary)
        temporary.replace(out)
    except DataError as error:
        raise DataError(str(error).replace(str(temporary), str(out))) from None
    except OSError as error:
        raise DataError(f"{out}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return saved


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
    return {name for name in names if len(name) > len("/x")} - {"localhost"}


def _refuse(what: str, names: set[str], *texts: str) -> None:
    """Whole words only: a host that is called `test` must not forbid `tests`."""
    for name in sorted(names):
        word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
        if any(word.search(text) for text in texts):
            raise DataError(f"{what} names {name!r}; choose a command or text that does not")


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="recording-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _ignore_special(parent: str, names: list[str]) -> set[str]:
    """Sockets, pipes and devices: opening one could block for ever."""
    modes = {name: Path(parent, name).lstat().st_mode for name in names}
    return {
        name
        for name, mode in modes.items()
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    }


def _first_reason(error: OSError) -> str:
    # copytree goes on after a failure and raises all of them at the end.
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        failed, _, why = error.args[0][0]
        return f"{failed}: {why}"
    return error.strerror or str(error)


def _end_with_newline(path: Path) -> None:
    with path.open("rb+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


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
