"""Run configurations: YAML in, frozen settings out.

Adapters supply their own sections: `kind` chooses the workload's, `device.kind` the device's.
Every mistake is one line that names the key, the file and, where there is one, the line.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, model_validator

from edge_runner.adapters import (
    BasedStr,
    DeviceSection,
    GenerationSection,
    PathOrName,
    Section,
    WorkloadSection,
    is_path_or_name,
    load_device,
    load_workload,
    looks_like_path,
)
from edge_runner.errors import ConfigError

MLPERF_MIN_DURATION_S = 600


class EngineSpec(Section):
    """Which model plays a role. `device` overrides keys of the run's `device` section."""

    model: PathOrName
    device: dict[str, Any] = Field(default_factory=dict)


class Scenario(Section):
    """How LoadGen asks. `unit`: a query is the next turn, or a whole session. `quick` claims no
    validity; `mlperf` means 600 s and official seeds."""

    kind: Literal["single-stream"] = "single-stream"
    unit: Literal["turn", "session"] = "turn"
    preset: Literal["quick", "mlperf"] = "quick"


class SloSection(Section):
    """Limits a turn should keep, in ms; the summary says which share of the turns did."""

    ttft_ms: float | None = Field(default=None, gt=0)
    tpot_ms: float | None = Field(default=None, gt=0)


class RunConfig(Section):
    """Everything that decides what a run does."""

    name: str = Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    kind: str
    mode: Literal["performance", "accuracy"] = "performance"
    workload: SerializeAsAny[WorkloadSection]
    scenario: Scenario = Scenario()
    device: SerializeAsAny[DeviceSection]
    generator: EngineSpec | None = None
    generation: GenerationSection = GenerationSection()
    slo: SloSection = SloSection()

    @model_validator(mode="before")
    @classmethod
    def _sections_by_kind(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not {"kind", "workload", "device"} <= values.keys():
            return values  # the missing key is reported field by field
        device = values["device"]
        if not isinstance(device, dict) or "kind" not in device:
            raise ValueError("device: needs a `kind`")
        generator = values.get("generator")
        if isinstance(generator, dict) and "device" in generator:
            if not isinstance(generator["device"], dict):
                raise ValueError("generator.device: must be a mapping of keys of `device`")
            device = {**device, **generator["device"]}
            # What is kept, and recorded, is the device in force.
            generator = {**generator, "device": {}}
        return {
            **values,
            "generator": generator,
            "workload": _section(
                "workload", load_workload(str(values["kind"])).section, values["workload"]
            ),
            "device": _section("device", load_device(str(device["kind"])).section, device),
        }

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.generator is None and load_device(self.device.kind).needs_model:
            raise ValueError(f"generator.model: device kind {self.device.kind!r} needs a model")
        limits = [
            key
            for key in ("sessions", "max_turns")
            if getattr(self.workload, key, None) is not None
        ]
        if self.scenario.preset == "mlperf" and limits:
            raise ValueError(
                f"workload.{limits[0]}: cannot be limited under scenario.preset mlperf; "
                "use preset quick"
            )
        return self

    def fingerprint(self) -> str:
        """SHA-256 over everything that decides the work, so equal runs can be told; the run's name,
        its objectives and the folders that files lie in do not enter."""
        body = _without_folders(self)
        del body["name"], body["slo"]
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _without_folders(section: BaseModel) -> dict[str, Any]:
    body = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            body[name] = _without_folders(value)
        elif isinstance(value, str) and is_path_or_name(field) and looks_like_path(value):
            body[name] = Path(value).name
    return body


def _section(where: str, model: type[BaseModel], values: Any) -> BaseModel:
    if isinstance(values, model):
        return values
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_first_mistake(error, model, prefix=where)) from None


def load_config(
    source: str | Path | Mapping[str, Any], sets: Sequence[str] = (), *, cwd: Path | None = None
) -> RunConfig:
    """Read a configuration file, the name of a shipped one, or a mapping; apply `key=value` sets.

    Paths in a file are relative to the file, in sets and mappings to the working directory.
    Raises ConfigError with one line.
    """
    cwd = cwd or Path.cwd()
    if isinstance(source, Mapping):
        where, values = "config", _based(dict(source), cwd)
    else:
        path = find_config(str(source))
        where, values = str(source), _read(path)
    for item in sets:
        _apply(values, item, cwd)
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_first_mistake(error, RunConfig)}") from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def shipped() -> dict[str, Path]:
    """The configurations that come with the package, by name."""
    folder = Path(str(files("edge_runner.configs")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_config(text: str) -> Path:
    """The file behind a path or a shipped configuration's name. Raises ConfigError."""
    path = Path(text).expanduser()
    if path.is_file():
        return path
    known = shipped()
    if text in known:
        return known[text]
    if path.is_dir():
        raise ConfigError(f"{text}: is a folder; name a configuration file in it")
    close = difflib.get_close_matches(path.stem, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; shipped: {', '.join(known)}"
    raise ConfigError(f"{text}: no such configuration file{hint}")


_BOOLEAN = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key given twice is an error, since one of the two would be ignored, and
    so are aliases, of which a few lines can stand for gigabytes. As in YAML 1.2, only `true` and
    `false` are booleans: `on` is a word. A date is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class's own way
        first: [
            (tag, _BOOLEAN if tag == "tag:yaml.org,2002:bool" else pattern)
            for tag, pattern in resolvers
            if tag != "tag:yaml.org,2002:timestamp"
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise ConfigError(f"line {line}: aliases (*name) are not taken here: write it out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise ConfigError(f"line {line}: key {key!r} must be text")
            if key in seen:
                raise ConfigError(f"line {line}: key {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _parse(text: str, base: Path) -> Any:
    """One YAML document whose strings remember `base`. Raises ConfigError."""
    try:
        return _based(yaml.load(text, Loader=_Loader), base)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError(f"{line}not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        raise ConfigError(f"not valid YAML: {' '.join(str(error).split())}") from None


def read_yaml(path: Path) -> Any:
    """Parse one YAML file; strings remember the file's folder. Raises ConfigError."""
    try:
        return _parse(path.read_text(encoding="utf-8"), path.resolve().parent)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must be a mapping of keys, such as `name: my-run`")
    return values


def _based(value: Any, base: Path) -> Any:
    if isinstance(value, str):
        return BasedStr(value, base)
    if isinstance(value, dict):
        return {key: _based(item, base) for key, item in value.items()}
    if isinstance(value, list):
        return [_based(item, base) for item in value]
    return value


def _apply(values: dict[str, Any], item: str, cwd: Path) -> None:
    """Set one dotted `key=value`; the value is read as YAML, so 12 is a number and null is null."""
    key, separator, text = item.partition("=")
    parts = key.strip().split(".")
    if not separator or not all(parts):
        raise ConfigError(f"--set {item}: must be key=value, such as workload.sessions=1")
    try:
        value = _parse(text, cwd)
    except ConfigError as error:
        raise ConfigError(f"--set {key}: {error}") from None
    target = values
    for part in parts[:-1]:
        inner = target.get(part)
        if inner is None:
            inner = target[part] = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {item}: {part!r} is a value, not a section")
        target = inner
    target[parts[-1]] = value


def _first_mistake(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """The first mistake as one line: key, what is wrong, what would be right."""
    mistake = error.errors(include_url=False)[0]
    path = [prefix] if prefix else []
    path += [str(part) for part in mistake["loc"] if not str(part).startswith("function-")]
    key = ".".join(path)
    more = len(error.errors()) - 1
    tail = f" (and {more} more)" if more else ""
    if mistake["type"] == "extra_forbidden":
        known = _keys_at(model, [str(part) for part in mistake["loc"][:-1]])
        close = difflib.get_close_matches(str(mistake["loc"][-1]), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
        return f"{key}: unknown key{hint if known else ''}{tail}"
    if mistake["type"] == "missing":
        return f"{key}: is missing{tail}"
    text = mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] == "value_error":
        return f"{key}: {text}{tail}" if key else f"{text}{tail}"
    shown = repr(mistake["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{key}: {text[0].lower()}{text[1:]}, not {shown}{tail}"


def _keys_at(model: type[BaseModel], path: list[str]) -> list[str]:
    for part in path:
        field = model.model_fields.get(part)
        annotation = field.annotation if field else None
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        inner = next(
            (c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None
        )
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)
