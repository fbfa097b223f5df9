"""What was measured: the engine, model and data, LoadGen's side, and what to set it beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edge_runner.results.report.markup import Html, join, tag, text
from edge_runner.results.report.values import Numbers
from edge_runner.results.schema import Identity, RunRecord, Summary
from edge_runner.results.table import NOT_VERIFIED, duration

NOT_RECORDED = "not recorded"
ENVIRONMENT_BYTES = ("total", "available", "limit")


def stack(summary: Summary, run: RunRecord, numbers: Numbers) -> Html:
    engine = run.engine
    capabilities = engine.get("capabilities") or {}
    details = engine.get("details") or {}
    context = capabilities.get("context_tokens") or details.get("context_tokens")
    load_ns = engine.get("load_ns")
    warnings = engine.get("warnings") or ()
    return join(
        (
            tag(
                "div",
                _sheet(
                    "Engine",
                    ("device", engine.get("device")),
                    ("runtime", _joined(engine.get("runtime"), engine.get("runtime_version"))),
                    ("engine", engine.get("engine")),
                    ("threads", engine.get("threads")),
                    ("effective context, tokens", f"{context:,}" if context else None),
                    ("loaded in", duration(load_ns) if load_ns else None),
                ),
                _sheet(
                    "Model",
                    *_identity(summary.model),
                    ("architecture", engine.get("architecture")),
                    (
                        "weights",
                        numbers.show("precision", "weights", as_=str, missing=NOT_RECORDED),
                    ),
                    ("KV cache", numbers.show("precision", "kv", as_=str, missing=NOT_RECORDED)),
                    ("file SHA-256 at load", engine.get("model_sha256")),
                ),
                _sheet("Data", *_identity(summary.data)),
                _sheet(
                    "Run",
                    ("edge-runner", run.edge_runner),
                    ("config fingerprint", run.fingerprint),
                    ("started", run.started),
                    ("ended", run.ended),
                    ("measured for", numbers.show("duration_ns")),
                    ("streams", run.streams),
                ),
                class_="sheets",
            ),
            (tag("p", tag("strong", "Engine. "), line, class_="alert warn") for line in warnings),
            _fold("Engine details", details),
            _fold("Environment", summary.environment),
        )
    )


def loadgen(summary: Summary, run: RunRecord) -> Html:
    check = summary.cross_check
    report = summary.loadgen
    lines: list[Html] = []
    if check is not None:
        tone = "bad" if check.clock_mismatch else "good"
        lines.append(tag("p", check.detail, ".", class_=f"alert {tone}"))
    else:
        lines.append(tag("p", "LoadGen's clock was not compared with ours.", class_="note"))
    sheets = []
    if report is not None and report.metrics:
        sheets.append(_sheet("LoadGen's own figures", *_flat(report.metrics)))
    if run.settings:
        sheets.append(_sheet("Effective settings", *_flat(run.settings)))
    return join((lines, tag("div", sheets, class_="sheets") if sheets else None))


def standing(summary: Summary) -> Html:
    stands = summary.standing
    beside = (
        f"{stands.division_like}-like, beside {stands.reference}"
        if stands.reference
        else "not set beside any reference"
    )
    return join(
        (
            tag("p", tag("strong", f"This is {NOT_VERIFIED}"), f"; {beside}. Availability: ",
                stands.availability or "not stated", "."),
            tag("p", "It differs from the reference in:") if stands.deviations else None,
            tag("ul", (tag("li", deviation) for deviation in stands.deviations)),
        )
    )  # fmt: skip


def _fold(title: str, mapping: Mapping[str, Any]) -> Html | None:
    if not mapping:
        return None
    return tag("details", tag("summary", title), _sheet(None, *_flat(mapping)))


def _sheet(title: str | None, *pairs: tuple[str, object]) -> Html:
    rows = (tag("div", tag("dt", name), tag("dd", _fact(value))) for name, value in pairs)
    return tag("div", tag("h3", title) if title else None, tag("dl", rows), class_="sheet")


def _fact(value: object) -> Html:
    if value is None or value == "":
        return tag("span", NOT_RECORDED, class_="missing")
    if isinstance(value, Html):
        return value
    shown = str(value)
    return tag("code", shown) if len(shown) >= 40 and " " not in shown else text(shown)


def _identity(identity: Identity | None) -> Iterator[tuple[str, object]]:
    if identity is None:
        yield "name", None
        return
    yield "name", identity.name
    yield "SHA-256", identity.sha256
    yield "licence", identity.license
    yield "source", identity.source


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested mappings as one list of worded names; what is None was not found."""
    for key, value in mapping.items():
        name = f"{prefix}{_worded(str(key))}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}: ")
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, int | float):
            yield name, _quantity(str(key), value)
        elif isinstance(value, list | tuple):
            yield name, ", ".join(map(str, value)) or "none"
        else:
            yield name, value


def _quantity(key: str, value: float) -> str:
    """A number in the unit its name gives it."""
    if key.endswith("_ns"):
        return duration(round(value))
    if key.endswith("_bytes") or key in ENVIRONMENT_BYTES:
        return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.1f} MiB"
    return f"{value:,}"


def _worded(key: str) -> str:
    return key.removesuffix("_ns").replace("_", " ")


def _joined(*parts: object) -> str | None:
    return " ".join(str(part) for part in parts if part) or None
