"""How result files reach the disk and come back: JSON of Structs, atomic replacement, versions."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edge_runner.errors import DataError

FORMAT = 1
"""Version of `run.json` and `summary.json`. It grows when a name changes its meaning or goes."""

S = TypeVar("S", bound=msgspec.Struct)


class _Versioned(msgspec.Struct):
    format: int


def encode(value: Any) -> bytes:
    """Compact JSON. A lone surrogate, which JSON text may bring in and UTF-8 cannot hold, is
    written as its escape, so that no turn is lost to a strange character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escape_surrogates(msgspec.to_builtins(value)))


def encode_pretty(value: Any) -> bytes:
    return msgspec.json.format(encode(value), indent=2) + b"\n"


def decode(data: bytes, kind: type[S], path: Path) -> S:
    """Decode a file that carries `format`. Raises DataError: damaged, or of a newer format."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).format
        if version > FORMAT:
            raise DataError(
                f"{path}: format {version} was written by a newer edge-runner (this one reads up "
                f"to {FORMAT}); update edge-runner"
            )
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: damaged or cut short: {error}") from None


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path`: a reader finds the old content or the new, never a part. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner can read; a result is an ordinary file.
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _escape_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_escape_surrogates(k): _escape_surrogates(v) for k, v in value.items()}
        case list() | tuple():
            return [_escape_surrogates(item) for item in value]
        case _:
            return value
