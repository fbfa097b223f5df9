"""SQLite: the vector store for RAG keeps its data in it."""

from __future__ import annotations

from collections.abc import Iterator

from edge_runner.doctor.check import Check, note, ok, unavailable
from edge_runner.doctor.machine import Machine

CHROMA_MINIMUM = (3, 35, 0)
"""Chroma refuses older ones (RETURNING came with 3.35)."""

_OTHER_PYTHON = "use a Python built with a newer SQLite; only RAG stores need it"


def sqlite(_machine: Machine) -> Iterator[Check]:
    try:
        import sqlite3
    except ImportError as error:
        yield unavailable("SQLite", f"this Python has none: {error}", _OTHER_PYTHON)
        return
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < CHROMA_MINIMUM:
        wanted = ".".join(map(str, CHROMA_MINIMUM[:2]))
        yield note("SQLite", f"{version}; Chroma needs {wanted} or newer", _OTHER_PYTHON)
    elif not _has_fts5():
        yield note("SQLite", f"{version} without FTS5 (full-text search)", _OTHER_PYTHON)
    else:
        yield ok("SQLite", f"{version} with FTS5")


def _has_fts5() -> bool:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True
