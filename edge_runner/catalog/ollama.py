"""Models that Ollama has pulled. Nothing is asked of Ollama itself: it need not run.

<models>/manifests/<host>/<namespace>/<model>/<tag>   JSON; its layers name blobs by SHA-256
<models>/blobs/sha256-<hex>                           the model layer is a GGUF file
"""

from __future__ import annotations

import difflib
import itertools
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runner.errors import AssetError

PREFIX = "ollama:"
MAX_MANIFESTS = 2_000
MAX_MANIFEST_BYTES = 1 << 20

_MODEL_LAYER = "application/vnd.ollama.image.model"
_ADAPTER_LAYER = "application/vnd.ollama.image.adapter"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_DEFAULT = ("registry.ollama.ai", "library")


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """`name` as Ollama shows it, tag included. `path`: its GGUF blob, whose SHA-256 is `sha256`;
    both None when `problem` says why it has none that can be used alone."""

    name: str
    path: Path | None
    sha256: str | None
    problem: str | None = None

    @property
    def blob(self) -> Path:
        """The GGUF file. Raises AssetError when there is none."""
        if self.path is None:
            raise AssetError(f"{PREFIX}{self.name}: {self.problem}")
        return self.path


def folders() -> list[Path]:
    """Where Ollama keeps models: OLLAMA_MODELS, else the user's folder and its service's."""
    named = os.environ.get("OLLAMA_MODELS")
    if named:
        return [Path(named).expanduser()]
    return [Path.home() / ".ollama/models", Path("/usr/share/ollama/.ollama/models")]


def installed(folder: Path) -> Iterator[OllamaModel]:
    """The models of one folder, by name; manifests this user may not read are left out."""
    root = folder / "manifests"
    manifests = sorted(itertools.islice(root.glob("*/*/*/*"), MAX_MANIFESTS))
    for path in manifests:
        name = _name(path.relative_to(root).parts)
        try:
            with path.open("rb") as file:
                manifest = json.loads(file.read(MAX_MANIFEST_BYTES))
        except (OSError, ValueError, RecursionError) as error:
            if not isinstance(error, OSError):
                yield OllamaModel(name, None, None, "its manifest is damaged")
            continue
        yield _model(name, manifest, folder / "blobs")


def find(name: str) -> OllamaModel:
    """The model that `ollama:NAME[:TAG]` means, the tag being `latest` if left out.

    Raises AssetError when it is not there, with the nearest name.
    """
    wanted = name.removeprefix(PREFIX)
    if ":" not in wanted.rpartition("/")[2]:
        wanted += ":latest"
    known = {model.name: model for folder in reversed(folders()) for model in installed(folder)}
    model = known.get(wanted)
    if model is None:
        looked = ", ".join(map(str, folders()))
        close = difflib.get_close_matches(wanted, known, n=1)
        hint = f"; did you mean {PREFIX}{close[0]}?" if close else ""
        names = ", ".join(sorted(known)) or "none"
        raise AssetError(f"Ollama has no model {wanted!r} in {looked}; there: {names}{hint}")
    return model


def _name(parts: tuple[str, ...]) -> str:
    host, namespace, model, tag = parts
    if (host, namespace) == _DEFAULT:
        return f"{model}:{tag}"
    prefix = namespace if host == _DEFAULT[0] else f"{host}/{namespace}"
    return f"{prefix}/{model}:{tag}"


def _model(name: str, manifest: Any, blobs: Path) -> OllamaModel:
    layers = manifest.get("layers") if isinstance(manifest, dict) else None
    digests: dict[str, list[str]] = {_MODEL_LAYER: [], _ADAPTER_LAYER: []}
    for layer in layers if isinstance(layers, list) else []:
        if isinstance(layer, dict) and layer.get("mediaType") in digests:
            digests[layer["mediaType"]].append(str(layer.get("digest")))
    if digests[_ADAPTER_LAYER]:
        return OllamaModel(name, None, None, "it is an adapter over another model")
    if len(digests[_MODEL_LAYER]) != 1:
        count = len(digests[_MODEL_LAYER]) or "no"
        return OllamaModel(name, None, None, f"it has {count} GGUF files (one is needed)")
    digest = _DIGEST.fullmatch(digests[_MODEL_LAYER][0])
    if digest is None:
        return OllamaModel(name, None, None, "its manifest is damaged")
    return OllamaModel(name, blobs / f"sha256-{digest[1]}", digest[1])
