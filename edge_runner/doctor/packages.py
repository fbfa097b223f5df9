"""edge-runner itself, its Python, and its extras, all as its own metadata declares them."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from edge_runner.doctor.check import Check, note, ok, problem, unavailable
from edge_runner.doctor.machine import Machine

PACKAGE = "edge-runner"
QUICKSTART_EXTRAS = ("llama-cpp", "loadgen")

_NEWEST_PYTHON_WITH_WHEELS = {"loadgen": (3, 13)}
"""LoadGen's wheels end there; for later ones pip compiles it, which needs a C++ compiler."""


def base(_machine: Machine) -> Iterator[Check]:
    """This package with what it always needs, and the Python it runs on."""
    try:
        installed = version(PACKAGE)
    except PackageNotFoundError:
        yield problem(PACKAGE, "not installed as a package", "pip install edge-runner")
        return
    unmet = unmet_requirements(None)
    if unmet:
        yield problem(PACKAGE, f"{installed}; {', '.join(unmet)}", f"pip install -U {PACKAGE}")
    else:
        yield ok(PACKAGE, installed)
    supported = metadata(PACKAGE)["Requires-Python"]
    python = platform.python_version()
    value = f"{platform.python_implementation()} {python} (supported: {supported})"
    if SpecifierSet(supported).contains(python, prereleases=True):
        yield ok("Python", value)
    else:
        yield problem("Python", value, f"install {PACKAGE} under a supported Python")


def extras(_machine: Machine) -> Iterator[Check]:
    """One line for each extra: what it brought, or how to get it."""
    try:
        declared = metadata(PACKAGE).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        declared = []
    for extra in declared:
        wanted = requirements(extra)
        if wanted:  # an extra made of other extras has nothing of its own
            yield _extra(extra, wanted)


def requirements(extra: str | None) -> list[Requirement]:
    """What `extra` adds on this platform; None: what is always needed. Empty if not installed."""
    try:
        declared = [Requirement(line) for line in requires(PACKAGE) or []]
    except PackageNotFoundError:
        return []
    return [
        requirement
        for requirement in declared
        if requirement.name != PACKAGE and _applies(requirement, extra)
    ]


def unmet_requirements(extra: str | None) -> list[str]:
    """What is missing or of the wrong version, in words."""
    return [words for requirement in requirements(extra) if (words := _unmet(requirement))]


def _extra(extra: str, wanted: list[Requirement]) -> Check:
    what, unmet = f"extra {extra}", unmet_requirements(extra)
    if not unmet:
        return ok(what, ", ".join(f"{each.name} {_version(each.name)}" for each in wanted))
    advice = f"pip install -U '{PACKAGE}[{extra}]'"
    newest = _NEWEST_PYTHON_WITH_WHEELS.get(extra)
    if newest and tuple(map(int, platform.python_version_tuple()[:2])) > newest:
        advice += f" (for Python {newest[0]}.{newest[1]} and older it need not be compiled)"
    if extra in QUICKSTART_EXTRAS:
        return problem(what, "; ".join(unmet), advice)
    if all(_version(each.name) is None for each in wanted):
        return unavailable(what, "not installed", advice)
    return note(what, "; ".join(unmet), advice)


def _applies(requirement: Requirement, extra: str | None) -> bool:
    always = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if extra is None or always or requirement.marker is None:
        return extra is None and always
    return requirement.marker.evaluate({"extra": extra})


def _unmet(requirement: Requirement) -> str:
    found = _version(requirement.name)
    if found is None:
        return f"{requirement.name} is not installed"
    if not requirement.specifier.contains(found, prereleases=True):
        return f"{requirement.name} is {found}, wanted {requirement.specifier}"
    return ""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
