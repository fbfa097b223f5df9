"""Put an entry into a catalog's YAML text and leave every other byte as its owner wrote it."""

from __future__ import annotations

import json
import os
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from edge_runner.catalog import cache
from edge_runner.catalog.entry import Entry, Kind
from edge_runner.errors import ConfigError

NEW_FILE = "# Models and data sets of your own; they add to edge-runner's catalog or override it.\n"


class CannotEditError(Exception):
    """The text is not written in a way that an entry can be added to; the message gives the entry
    to add by hand."""


def write_entry(catalog: Path, entry: Entry) -> None:
    """Put a model into a catalog file, which is made if need be. Raises ConfigError."""
    path = catalog.resolve()  # a link to a file kept elsewhere stays a link
    fields = entry.model_dump(
        mode="json", exclude={"name", "kind", "origin", "cached_as"}, exclude_defaults=True
    )
    try:
        with _locked():
            text = path.read_bytes().decode("utf-8") if path.exists() else ""
            new = with_entry(text, entry.kind, entry.name, fields)
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, new.encode())
    except CannotEditError as error:
        raise ConfigError(f"{catalog} {error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{catalog}: is not UTF-8 text") from None
    except OSError as error:
        raise ConfigError(f"{catalog}: cannot be written: {error.strerror or error}") from None


def with_entry(text: str, kind: Kind, name: str, fields: Mapping[str, Any]) -> str:
    """`text` with the entry in the section `kind`: in the place of the one of its name, else as
    the section's last. Raises CannotEditError, never changing more than that."""
    newline = "\r\n" if "\r\n" in text else "\n"
    body = text.replace("\r\n", "\n")
    try:
        expected = yaml.safe_load(body) or {}
        expected[kind] = {**(expected.get(kind) or {}), name: dict(fields)}
        edited = _edit(body or NEW_FILE, kind, name, fields)
        if yaml.safe_load(edited) != expected:
            raise _StrangeError
    except (yaml.YAMLError, _StrangeError, TypeError, AttributeError) as error:
        raise CannotEditError(
            f"is not written so that an entry can be added to it; under `{kind}:` add "
            f"`{name}: {json.dumps(fields, ensure_ascii=False)}`"
        ) from error
    return edited.replace("\n", newline)


class _StrangeError(Exception):
    """YAML that is right, but not of the shape this module can add to."""


def _edit(body: str, kind: Kind, name: str, fields: Mapping[str, Any]) -> str:
    if not body.endswith("\n"):
        body += "\n"
    root = yaml.compose(body, Loader=yaml.SafeLoader)
    lines = body.splitlines(keepends=True)
    if root is None:
        return body + _lines(kind, {name: fields}, 0)
    key, section = _child(root, kind)
    if key is None or section is None:
        return body + _lines(kind, {name: fields}, root.start_mark.column)
    if not section.value:  # nothing, or {}
        start, end = section.start_mark, section.end_mark
        kept = (lines[start.line][: start.column] + lines[end.line][end.column :]).rstrip()
        inner = _lines(name, fields, key.start_mark.column + 2)
        return "".join((*lines[: start.line], f"{kept}\n", inner, *lines[end.line + 1 :]))
    if section.flow_style:
        raise _StrangeError
    at = _end_line(section)
    indent = section.value[0][0].start_mark.column
    old, value = _child(section, name)
    if old is None or value is None:
        return "".join((*lines[:at], _lines(name, fields, indent), *lines[at:]))
    start, end = old.start_mark.line, _end_line(value)
    return "".join((*lines[:start], _lines(name, fields, indent), *lines[end:]))


def _lines(key: str, value: Mapping[str, Any], indent: int) -> str:
    dumped = yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True, width=1_000_000)
    return textwrap.indent(dumped, " " * indent)


def _child(node: Any, key: str) -> tuple[Any, Any]:
    """The key and value nodes of one key of a mapping, or a pair of None."""
    if not isinstance(node, yaml.MappingNode) or node.flow_style:
        raise _StrangeError
    for key_node, value_node in node.value:
        if key_node.value == key:
            return key_node, value_node
    return None, None


def _end_line(node: Any) -> int:
    """The line behind a node's own text. A block collection's end mark lies at the next token,
    behind the comments that follow, so its last item counts."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    mark: yaml.Mark = node.end_mark
    return mark.line + (1 if mark.column else 0)


def _replace(path: Path, content: bytes) -> None:
    """A reader finds the old catalog or the new one, never a part."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _locked() -> Iterator[None]:
    """Two additions at once must not lose one."""
    import filelock

    path = cache.root() / "locks" / "user-catalogs.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(path):
        yield
