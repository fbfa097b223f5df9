"""Models that other programs have put on this machine already.

Looks where Ollama, LM Studio, the Hugging Face hub's library, llama.cpp and edge-runner itself keep
GGUF files, and in folders that are named. Nothing is fetched, hashed or changed, and the work is
bounded in time, depth and count; what was left out is said.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Literal

from edge_runner.catalog import cache, ollama, registry
from edge_runner.catalog.gguf import GgufInfo, inspect, require_generator
from edge_runner.errors import ModelFileError, UsageError

Place = Literal["edge-runner", "ollama", "lm-studio", "hub", "llama.cpp", "folder"]

BUDGET_S = 20.0
MAX_DEPTH = 8
MAX_ENTRIES = 100_000
MAX_MODELS = 1_000

_SHARD = re.compile(r"(?P<stem>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf")
_TOOLS = re.compile(r"\btools\b")


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model found. `model` is what a configuration or command takes for it; `name` is shorter.

    `info` is None for a file that is no sound GGUF; `problem` says why the model cannot generate
    text here, None if it can. `bytes` counts all shards.
    """

    name: str
    place: Place
    model: str
    path: Path | None
    bytes: int
    info: GgufInfo | None
    problem: str | None

    @property
    def usable(self) -> bool:
        return self.problem is None

    @property
    def tools(self) -> bool:
        """Whether its chat template knows tools."""
        template = self.info.chat_template if self.info else None
        return template is not None and _TOOLS.search(template) is not None


@dataclass(frozen=True, slots=True)
class LocalModels:
    """`searched`: the folders that exist. `notes`: what was not looked at, and why."""

    models: tuple[LocalModel, ...]
    searched: tuple[Path, ...]
    notes: tuple[str, ...]


def find_models(folders: Sequence[Path] = (), *, budget_s: float = BUDGET_S) -> LocalModels:
    """Every model once, whatever number of names and links it has; those of `folders` first.

    Raises UsageError for one of `folders` that does not exist, ConfigError for a wrong catalog.
    """
    for folder in folders:
        if not folder.exists():
            raise UsageError(f"{folder} does not exist; give folders (or .gguf files) to look in")
    search = _Search(monotonic() + budget_s, budget_s)
    try:
        for folder in folders:
            search.look("folder", folder.absolute(), lambda path, root: _below(path, root.parent))
        search.look_in_cache()
        for folder in ollama.folders():
            search.look_in_ollama(folder)
        for folder in _lm_studio():
            search.look("lm-studio", folder, _below)
        search.look("hub", _hub(), _hub_name, inside="models--*/snapshots")
        search.look("llama.cpp", _llama_cpp(), lambda path, _: path.name)
    except _ExhaustedError as stop:
        search.notes.append(f"stopped early: {stop}; name the folder to look in")
    return LocalModels(tuple(search.models), tuple(search.searched), tuple(search.notes))


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _hub_name(path: Path, root: Path) -> str:
    repository, _, _, *file = path.relative_to(root).parts
    return "/".join((*repository.removeprefix("models--").split("--"), *file))


def _lm_studio() -> list[Path]:
    return [Path.home() / ".lmstudio/models", Path.home() / ".cache/lm-studio/models"]


def _hub() -> Path:
    """The rule of huggingface_hub, which takes longer to import than the search."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if named := os.environ.get(variable):
            return Path(named).expanduser()
    home = os.environ.get("HF_HOME")
    return (Path(home).expanduser() if home else _user_cache() / "huggingface") / "hub"


def _llama_cpp() -> Path:
    if named := os.environ.get("LLAMA_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/llama.cpp"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "llama.cpp"
    return _user_cache() / "llama.cpp"


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _later_shard(path: Path) -> bool:
    """True for a shard whose first one is there: that one stands for the whole model."""
    match = _SHARD.fullmatch(path.name)
    if match is None or int(match["no"]) <= 1:
        return False
    return cache.is_file(path.with_name(f"{match['stem']}-00001-of-{match['count']}.gguf"))


class _ExhaustedError(Exception):
    """A bound of the search was reached."""


@dataclass
class _Search:
    """What was seen so far, and how much may still be looked at. `files` gives a file's place
    among `models`."""

    deadline: float
    budget_s: float
    models: list[LocalModel] = field(default_factory=list)
    searched: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    entries: int = 0
    files: dict[tuple[int, int], int] = field(default_factory=dict)
    folders: set[tuple[int, int]] = field(default_factory=set)

    def look(
        self, place: Place, root: Path, name: Callable[[Path, Path], str], *, inside: str = ""
    ) -> None:
        """Add every GGUF file below `root`, or below the folders in it that match `inside`."""
        if cache.is_file(root):
            self._add(name(root, root), place, str(root), root)
            return
        if not self._enter(root):
            return
        self.searched.append(root)
        for start in sorted(root.glob(inside)) if inside else [root]:
            for path in self._ggufs(start):
                self._add(name(path, root), place, str(path), path)

    def look_in_cache(self) -> None:
        """What the catalog put there goes by its name."""
        root = cache.root() / "models"
        names = {cache.entry_path(entry): entry.name for entry in registry.entries("models")}
        if self._enter(root):
            self.searched.append(root)
            for path in self._ggufs(root):
                name = names.get(path)
                self._add(name or _below(path, root), "edge-runner", name or str(path), path)

    def look_in_ollama(self, root: Path) -> None:
        if not self._enter(root):
            return
        self.searched.append(root)
        for found in ollama.installed(root):
            model = f"{ollama.PREFIX}{found.name}"
            if found.path is not None:
                self._add(model, "ollama", model, found.path)
            else:
                self.models.append(LocalModel(model, "ollama", model, None, 0, None, found.problem))

    def _ggufs(self, start: Path) -> Iterator[Path]:
        waiting = [(start, 0)]
        while waiting:
            folder, depth = waiting.pop()
            try:
                with os.scandir(folder) as found:
                    names = sorted(item.name for item in islice(found, MAX_ENTRIES + 1))
            except OSError as error:
                self.notes.append(f"{folder}: {error.strerror or error}")
                continue
            below = []
            for name in names:
                self._spend()
                path = folder / name
                if name.startswith("."):
                    continue
                if depth < MAX_DEPTH and self._enter(path):
                    below.append((path, depth + 1))
                elif name.endswith(".gguf") and not _later_shard(path):
                    yield path
            waiting += reversed(below)

    def _enter(self, folder: Path) -> bool:
        """True for a folder that was not entered before, by whatever links."""
        try:
            stat = folder.stat()
            if not folder.is_dir():
                return False
        except FileNotFoundError:
            return False
        except OSError as error:
            self.notes.append(f"{folder}: {error.strerror or error}")
            return False
        key = (stat.st_dev, stat.st_ino)
        if key in self.folders:
            return False
        self.folders.add(key)
        return True

    def _add(self, name: str, place: Place, model: str, path: Path) -> None:
        """One model for one file, under the first of its names that it can be used by: a shard
        only works by its own."""
        self._spend()
        size, key = 0, None
        with suppress(OSError):  # the inspection says what is wrong with it
            stat = path.stat()
            size, key = stat.st_size, (stat.st_dev, stat.st_ino)
        seen = self.files.get(key) if key else None
        if seen is not None and self.models[seen].usable:
            return
        info, problem = None, None
        try:
            info = inspect(path)
            require_generator(info)
        except ModelFileError as error:
            problem = str(error).removeprefix(f"{path} ").removeprefix("is ")
        found = LocalModel(
            name, place, model, path, info.file_bytes if info else size, info, problem
        )
        if seen is None:
            if key is not None:
                self.files[key] = len(self.models)
            self.models.append(found)
        elif found.usable:
            self.models[seen] = found

    def _spend(self) -> None:
        self.entries += 1
        if self.entries > MAX_ENTRIES or len(self.models) >= MAX_MODELS:
            raise _ExhaustedError(f"more than {MAX_ENTRIES} files or {MAX_MODELS} models")
        if monotonic() > self.deadline:
            raise _ExhaustedError(f"it took more than {self.budget_s:g} s")
