"""Where models come from: the hub, wheels of the user's package index, through which proxy.

Addresses may carry passwords: only scheme and host are shown.
"""

from __future__ import annotations

import ast
import sys
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

from edge_runner.doctor import bounded
from edge_runner.doctor.caches import offline_switches
from edge_runner.doctor.check import Check, note, ok
from edge_runner.doctor.machine import Machine

HUB_LIMIT_S = 2.0
PIP_LIMIT_S = 6.0

_WITHOUT_HUB = (
    "models also come as wheels from the package index, where the catalog knows one; or set "
    "HF_ENDPOINT to a mirror, or give the path of a file"
)


def hub(machine: Machine) -> Iterator[Check]:
    """One request, bounded, unless offline is asked for."""
    switches = offline_switches(machine)
    if switches:
        advice = f"unset {' and '.join(switches)} to fetch models"
        yield note("hub", f"not asked: {', '.join(switches)} is set", advice)
        return
    from huggingface_hub.constants import ENDPOINT

    why = _unreachable(ENDPOINT)
    if why:
        yield note("hub", f"{_place(ENDPOINT)}: {why}", _WITHOUT_HUB)
    else:
        yield ok("hub", f"{_place(ENDPOINT)} answers")


def index(machine: Machine) -> Iterator[Check]:
    """What pip is configured with, from pip itself. The index is not asked for anything."""
    command = [sys.executable, "-P", "-m", "pip", "config", "list"]
    ended = bounded.run(command, PIP_LIMIT_S, machine.environ)
    if ended.code != 0:
        yield note(
            "package index",
            f"pip cannot tell: {ended.cause}",
            "models as wheels need pip in this environment: python -m ensurepip",
        )
        return
    settings = _pip_settings(ended.stdout)
    without_index = settings.get("no-index", ["false"])[-1].lower() in {"1", "true", "yes", "on"}
    indexes = [*map(_place, settings.get("index-url", []))] or ["its default index"]
    indexes += map(_place, settings.get("extra-index-url", []))
    links = map(_place, settings.get("find-links", []))
    places = [*([] if without_index else indexes), *links]
    if places:
        shown = ", ".join(dict.fromkeys(places))
        yield ok("package index", f"pip looks at {shown} (not tried)")
    else:
        yield note(
            "package index",
            "pip is told not to use any (no-index)",
            "unset PIP_NO_INDEX or give PIP_FIND_LINKS, if models should come as wheels",
        )


def proxies(_machine: Machine) -> Iterator[Check]:
    found = urllib.request.getproxies()
    shown = ", ".join(
        f"{scheme}: {_place(address) if '/' in address else address}"
        for scheme, address in sorted(found.items())
        if scheme != "no"
    )
    yield ok("proxies", shown or "none")


def _unreachable(endpoint: str) -> str:
    """The catalog's own probe, waited for a little less long: this command is to be quick."""
    import threading

    from edge_runner.catalog.hub import probe

    answer = [f"no answer within {HUB_LIMIT_S:g} s"]

    def ask() -> None:
        answer[0] = probe(endpoint)

    thread = threading.Thread(target=ask, name="doctor-hub-probe", daemon=True)
    thread.start()
    thread.join(HUB_LIMIT_S)
    return answer[0]


def _pip_settings(listing: str) -> dict[str, list[str]]:
    """`pip config list` by setting, last one wins, lists split. Lines: section.name='value'."""
    settings: dict[str, list[str]] = {}
    for line in listing.splitlines():
        name, _, quoted = line.partition("=")
        try:
            value = ast.literal_eval(quoted)
        except (ValueError, SyntaxError):
            continue
        section, _, setting = name.rpartition(".")
        if section in {"global", "download", ":env:"}:
            settings[setting] = str(value).split()
    return settings


def _place(address: str) -> str:
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that is not valid"
    if not parts.hostname:
        return "a local folder"
    return f"{parts.scheme}://{parts.hostname}{port}"
