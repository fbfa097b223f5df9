"""Entries by name: the shipped catalog, with the user's own catalogs laid over it.

The user's catalogs are the files that EDGE_RUNNER_CATALOG names (several are separated as in PATH,
and as there the first one wins), else `catalog.yaml` in the user's configuration folder. A user's
entry replaces the shipped one of its name; it says so wherever it is shown.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

import yaml

from edge_runner.catalog.entry import Entry, Kind, parse
from edge_runner.config import read_yaml
from edge_runner.errors import AssetError, ConfigError

SHIPPED = ("catalog.yaml", "bfcl-v4.yaml")
VARIABLE = "EDGE_RUNNER_CATALOG"

Known = dict[tuple[Kind, str], Entry]


def entries(kind: Kind) -> list[Entry]:
    """All entries of one kind, in the catalog's order, the user's own last.

    Raises ConfigError when a catalog of the user is wrong: one line with file, entry and key.
    """
    return [entry for entry in _known().values() if entry.kind == kind]


def find(kind: Kind, name: str) -> Entry:
    """The entry of that name. Raises AssetError listing what is known and the nearest name, and
    ConfigError when a catalog of the user is wrong."""
    known = _known()
    entry = known.get((kind, name))
    if entry is not None:
        return entry
    names = [entry.name for entry in known.values() if entry.kind == kind]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    what = "models" if kind == "models" else "data sets"
    raise AssetError(f"{name!r} is not in the catalog; known {what}: {', '.join(names)}{hint}")


def overridden(entry: Entry) -> Entry | None:
    """The shipped entry that a user's entry stands in for."""
    return None if entry.origin is None else _shipped().get((entry.kind, entry.name))


def shipped(kind: Kind) -> list[Entry]:
    """The entries that come with edge-runner, whatever the user's catalogs say."""
    return [entry for entry in _shipped().values() if entry.kind == kind]


def user_catalogs() -> list[Path]:
    """The user's catalog files, the one that wins first. They need not exist."""
    named = os.environ.get(VARIABLE, "")
    if named.strip(os.pathsep):
        return [Path(text).expanduser().absolute() for text in named.split(os.pathsep) if text]
    import platformdirs

    return [Path(platformdirs.user_config_dir("edge-runner", appauthor=False)) / "catalog.yaml"]


def read_catalog(path: Path) -> list[Entry]:
    """The entries of one of the user's catalogs; none if it does not exist. Raises ConfigError."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return _read(path, (stat.st_mtime_ns, stat.st_size, stat.st_ino))


def placed(entry: Entry, origin: Path) -> Entry:
    """The entry as one of the user's, in `origin`. What it caches lies apart from what another
    entry of its name caches, unless that is the same."""
    shipped = _shipped().get((entry.kind, entry.name))
    lines = sorted(f"{name}:{sha256}" for name, sha256 in entry.pins)
    mark = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]
    same = shipped is not None and shipped.pins == entry.pins
    return entry.model_copy(
        update={"origin": origin, "cached_as": None if same else f"{entry.name}@{mark}"}
    )


@cache
def _shipped() -> Known:
    folder = files("edge_runner.catalog")
    loaded = [
        entry
        for file in SHIPPED
        for entry in parse(yaml.safe_load(folder.joinpath(file).read_text("utf-8")), file)
    ]
    return {(entry.kind, entry.name): entry for entry in loaded}


def _known() -> Known:
    known = dict(_shipped())
    for path in reversed(user_catalogs()):
        if os.environ.get(VARIABLE) and not path.exists():
            raise ConfigError(
                f"{VARIABLE}: {path} does not exist; `edge-runner models add` would make it"
            )
        known |= {(entry.kind, entry.name): entry for entry in read_catalog(path)}
    return known


@lru_cache(maxsize=16)
def _read(path: Path, _stamp: tuple[int, int, int]) -> list[Entry]:
    found = [placed(entry, path) for entry in parse(read_yaml(path), str(path))]
    for entry in found:
        for number, source in enumerate(entry.sources):
            if source.kind == "package":
                raise ConfigError(
                    f"{path}: {entry.kind}.{entry.name}.sources.{number}.kind: 'package' is for "
                    "files that come with edge-runner; use path, url, hub or wheel"
                )
    return found
