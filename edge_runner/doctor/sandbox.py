"""How well commands written by a model could be contained here, by a live probe.

The replay runs no commands; only live agents do.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from edge_runner.doctor import bounded
from edge_runner.doctor.check import Check, note, ok
from edge_runner.doctor.machine import Machine

LIMIT_S = 2.0

# The files are all readable and none is writable; processes, network and users are its own.
PROBE = ("--ro-bind", "/", "/", "--tmpfs", "/tmp", "--unshare-all", "--die-with-parent", "true")  # noqa: S108

_INSTALL = "install it, for instance: apt install bubblewrap"
_IN_DOCKER = "in Docker, --security-opt seccomp=unconfined or a profile that allows unshare"
_CONSEQUENCE = "commands a model wrote will not run unless you allow it; the replay runs none"

# Kernel settings that forbid user namespaces -> what each says and what lifts it.
_FORBIDDING = {
    "proc/sys/user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=15000"),
    "proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "an AppArmor profile for bwrap that allows userns",
    ),
}


def level(machine: Machine) -> Iterator[Check]:
    """`namespace` when bubblewrap works here, else `process only`."""
    if machine.system != "Linux":
        advice = f"{_CONSEQUENCE}; use Linux (WSL, a virtual machine) to contain them"
        yield note("level", f"process only: no bubblewrap on {machine.system}", advice)
        return
    bwrap = shutil.which("bwrap", path=machine.environ.get("PATH"))
    if bwrap is None:
        yield note(
            "level", "process only: bubblewrap is not installed", _with_consequence(_INSTALL)
        )
        return
    try:
        ended = bounded.run([bwrap, *PROBE], LIMIT_S, machine.environ)
    except OSError as error:
        why = f"cannot be started: {error.strerror or error}"
    else:
        if ended.code == 0:
            yield ok("level", "namespace: bubblewrap works (read-only system, no network)")
            return
        why = ended.cause
    advice = f"allow user namespaces: {_lifts(machine) or _IN_DOCKER}"
    yield note("level", f"process only: bubblewrap fails: {why}", _with_consequence(advice))


def _lifts(machine: Machine) -> str:
    return "; ".join(
        lift for name, (forbids, lift) in _FORBIDDING.items() if machine.read(name) == forbids
    )


def _with_consequence(advice: str) -> str:
    return f"{advice}; {_CONSEQUENCE}"
