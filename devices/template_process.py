"""The child process that renders one chat template: `python -I -S template_process.py DIR`.

A chat template comes out of a model file that anybody may have made. It is rendered here, where it
can do no harm: by minijinja (no Python objects behind its values but plain JSON data, nothing that
reaches files or the network), with a budget of instructions, in a process whose address space is
capped and which can open no further descriptor. DIR is the folder that holds minijinja; nothing
else outside the standard library is imported, so that the process starts fast and stays small.

Frames on standard input and output: 8 bytes of length, big-endian, then the payload. The first
request is the set-up (JSON), every later one a template's variables (JSON). An answer is one
status byte and UTF-8 text. End of input ends the process, and so does the death of its parent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from minijinja import Environment

RENDERED = b"T"
REFUSED = b"R"
FAILED = b"F"
OUT_OF_FUEL = b"I"
OUTPUT_TOO_LONG = b"O"

OUT_OF_MEMORY_EXIT = 86
TEMPLATE = "chat_template"
WARM_UP_NAME = "warm_up"
WARM_UP = (
    "{{ data | tojson(indent=2) }}{{ data.items() | list }}{{ data }}{{ strftime_now('%d %b') }}",
    "{{ raise_exception('warm-up') }}",
    "{{ data.key.missing.missing }}",
    "{% if %}",
)
HEADER_BYTES = 8

try:
    import resource
except ImportError:  # Windows: the parent watches time and memory alone
    resource = None  # type: ignore[assignment]


class _RefusedError(Exception):
    """The template called raise_exception."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    sys.path.append(sys.argv[1])
    from minijinja import Environment

    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    setup = json.loads(read_frame(requests))
    environment = Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        pycompat=True,
        debug=False,
        fuel=setup["instructions"],
    )
    equip(environment, datetime.fromisoformat(setup["now"]))
    warm_up(environment)
    limit_resources(setup["memory_bytes"])
    compiled = answer(partial(compile_template, environment, setup["source"]), setup)
    write_frame(answers, *compiled)
    while request := read_frame(requests):
        render = partial(environment.render_template, TEMPLATE, **json.loads(request))
        write_frame(answers, *answer(render, setup))


def warm_up(environment: Environment) -> None:
    """Let every module be imported that is only imported on first use: later none can be opened."""
    from minijinja import TemplateError

    for source in WARM_UP:
        with suppress(TemplateError, _RefusedError):
            environment.render_str(source, WARM_UP_NAME, data={"key": [1, 2.5, None, "é"]})


def compile_template(environment: Environment, source: str) -> str:
    environment.add_template(TEMPLATE, source)
    return ""


def equip(environment: Environment, now: datetime) -> None:
    """What Hugging Face's templates find beside Jinja's own filters, tests and functions."""

    def raise_exception(message: object) -> None:
        raise _RefusedError(str(message))

    def to_json(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators and (separators[0], separators[1]),
            sort_keys=sort_keys,
        )

    # Jinja asks Python: a text and a mapping are sequences, None cannot be iterated.
    def is_sequence(value: object) -> bool:
        return hasattr(value, "__len__") and hasattr(value, "__getitem__")

    def is_iterable(value: object) -> bool:
        return hasattr(value, "__iter__")

    environment.add_filter("tojson", to_json)
    environment.add_test("sequence", is_sequence)
    environment.add_test("iterable", is_iterable)
    environment.add_global("raise_exception", raise_exception)
    environment.add_global("strftime_now", now.strftime)
    environment.remove_global("debug")


def answer(render: Callable[[], str], setup: dict[str, Any]) -> tuple[bytes, bytes]:
    """Status and text of one piece of work, which ends within the time limit or ends us."""
    from minijinja import TemplateError

    if hasattr(signal, "setitimer"):  # the parent kills at the limit; this is for an orphan
        signal.setitimer(signal.ITIMER_REAL, 1 + setup["time_ns"] / 1e9)
    try:
        text = render().encode()
    except MemoryError:
        os._exit(OUT_OF_MEMORY_EXIT)
    except _RefusedError as error:
        return REFUSED, str(error).encode(errors="replace")
    except TemplateError as error:
        cause = error.__cause__
        if isinstance(cause, _RefusedError):
            return REFUSED, str(cause).encode(errors="replace")
        status = OUT_OF_FUEL if error.kind == "OutOfFuel" else FAILED
        return status, str(error).encode(errors="replace")
    except BaseException as error:  # noqa: BLE001 - a panic in Rust is not an Exception
        return FAILED, f"{type(error).__name__}: {error}".encode(errors="replace")
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
    if len(text) > setup["output_bytes"]:
        return OUTPUT_TOO_LONG, b""
    return RENDERED, text


def limit_resources(memory_bytes: int) -> None:
    """Allow `memory_bytes` of address space above what is in use, no new descriptor, no core."""
    if resource is None:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 - pathlib costs start-up time
            in_use = int(statm.read().split()[0]) * resource.getpagesize()
        limit = in_use + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


def read_frame(stream: BinaryIO) -> bytes:
    """The next frame's payload; empty at the end of input."""
    header = stream.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return b""
    return stream.read(int.from_bytes(header, "big"))


def write_frame(stream: BinaryIO, status: bytes, payload: bytes) -> None:
    stream.write((len(status) + len(payload)).to_bytes(HEADER_BYTES, "big"))
    stream.write(status)
    stream.write(payload)
    stream.flush()


if __name__ == "__main__":
    main()
