"""Every command the documentation shows is run, page by page, in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Commands of the checkout itself, which CI runs as such.
OF_THE_CHECKOUT = ("make ", "git ", "cd ", "pip install")

FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


def commands(page: Path) -> list[str]:
    """Lines that start with a prompt; a backslash at the end joins the next line."""
    found = []
    for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
        text = block.replace("\\\n", " ")
        found += [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    return [command for command in found if not command.startswith(OF_THE_CHECKOUT)]


@pytest.mark.model
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda p: p.name)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    for name, text in FILE.findall(page.read_text(encoding="utf-8")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands(page):
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "COLUMNS": "80"},
            capture_output=True,
            text=True,
            timeout=580,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_every_page_shows_commands() -> None:
    for page in PAGES:
        assert commands(page), f"{page.name} shows no command"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_configuration_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(ROOT / "docs/generate.py"), "--check"], check=False
    )
    assert done.returncode == 0, "run: make docs"
