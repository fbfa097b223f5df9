"""Where the checks look. Tests hand in made-up files instead of the real /proc and /sys."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Numbers:
    """Whole numbers read from files, by file. `why` says what kept the others from being read; it
    is empty only if all were."""

    by_path: dict[Path, int]
    why: str


@dataclass(frozen=True, slots=True)
class Machine:
    """`root` is where /proc, /sys and /dev are found; `system` is what `platform.system()` says."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    system: str = field(default_factory=platform.system)

    def find(self, pattern: str) -> list[Path]:
        """Existing paths that match a glob below the root, sorted."""
        return sorted(self.root.glob(pattern))

    def read(self, name: str) -> str | None:
        """A file's text without outer blanks; None where it cannot be read."""
        return read(self.root / name)

    def numbers(self, pattern: str, what: str) -> Numbers:
        """The whole numbers in all files that match; `what` names them where there is none."""
        paths = self.find(pattern)
        found, why = {}, "" if paths else self.absent(what)
        for path in paths:
            try:
                found[path] = int(path.read_text(encoding="ascii"))
            except OSError as error:
                why = (error.strerror or str(error)).lower()
            except ValueError:
                why = f"{path.name} holds no number"
        return Numbers(found, why)

    def absent(self, what: str) -> str:
        """Why `what` is not there: only Linux keeps it in files."""
        return f"no {what} in sysfs" if self.system == "Linux" else f"not read on {self.system}"


def read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
