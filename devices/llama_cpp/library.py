"""The native library: imported on first use, its log kept in memory instead of on stderr."""

from __future__ import annotations

import ctypes
import re
import threading
from collections import deque
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from edge_runner.errors import UnavailableError

PACKAGE = "llama-cpp-python"
MINIMUM = (0, 3, 36)
"""The first version whose low-level module has the functions used here (n_ctx_seq, memory API)."""

_DEBUG = 4
"""GGML_LOG_LEVEL_DEBUG: thousands of lines about graphs, which would push out the telling ones."""

_COMPLAINT = re.compile(r"error|fail|unknown|invalid|unable|cannot|does not|require")

_lock = threading.Lock()
_loaded: Any = None
_log_callback: Any = None
_log: deque[str] = deque(maxlen=4000)


def load_library() -> Any:
    """`llama_cpp.llama_cpp`, the low-level module, with its backends initialised.

    Raises UnavailableError when the package is missing, too old, or cannot be loaded.
    """
    global _loaded, _log_callback  # noqa: PLW0603 - the native library is global itself
    with _lock:
        if _loaded is not None:
            return _loaded
        found = installed_version()
        if found is None:
            raise UnavailableError(
                f"{PACKAGE} is not installed; install the extra: pip install "
                "'edge-runner[llama-cpp]'"
            )
        if _numbers(found) < MINIMUM:
            wanted = ".".join(map(str, MINIMUM))
            raise UnavailableError(
                f"{PACKAGE} {found} is too old, {wanted} or newer is needed; install the extra: "
                "pip install -U 'edge-runner[llama-cpp]'"
            )
        try:
            from llama_cpp import llama_cpp as native
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            raise UnavailableError(f"{PACKAGE} {found} cannot be loaded: {error}") from error
        # Kept for the life of the process: the library calls it from its own threads.
        _log_callback = native.llama_log_callback(_keep)
        native.llama_log_set(_log_callback, ctypes.c_void_p(0))
        native.llama_backend_init()
        _loaded = native
        return native


def installed_version() -> str | None:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def clear_log() -> None:
    """Forget the log kept so far, so that `log_text` shows only what follows."""
    _log.clear()


def log_text() -> str:
    """The native log's last lines."""
    return "".join(list(_log))


def last_complaint() -> str:
    """The most telling line of the native log, for an error message; empty if there is none."""
    lines = [line.strip() for line in log_text().splitlines()]
    telling = [line for line in lines if _COMPLAINT.search(line)]
    return (telling or [""])[0][:300]


def _keep(level: int, text: bytes | None, _data: Any) -> None:
    if level != _DEBUG:
        _log.append((text or b"").decode("utf-8", "replace"))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
