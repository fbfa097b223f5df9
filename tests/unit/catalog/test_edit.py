"""An entry goes into a catalog's text; everything else stays, byte for byte."""

from __future__ import annotations

import difflib

import pytest
import yaml

from edge_runner.catalog.edit import CannotEditError, with_entry

FIELDS = {"role": "generator", "files": [{"name": "ü.gguf", "bytes": 3}]}

COMMENTED = """\
# Mine.

models:   # the good ones
    # the first
    one:   {role: generator, license: MIT}   # keep

    two:
        notes: |
            Long
              text

        files:
        -   {name: a}
    # behind two

# Data comes last.
data:
    set: {role: replay}
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet\n",
        "models:\n",
        "models:  # none yet\ndata:\n",
        "models: {}  # none\n",
        "models: {}\ndata: {}\n",
        "data:\n  set: {role: replay}",
        COMMENTED,
        COMMENTED.replace("\n", "\r\n"),
        "models:\n  one:\n    notes: |\n      text\n",
        "models:\n  one:\n    notes: >-\n      text\n\n\ndata:\n  a: {}\n",
        "models:\n  one:\n",
        "  models:\n    one: {a: 1}\n",
        '"models":\n- \n'.replace("- \n", "  'one': {a: 1}\n"),
    ],
)
def test_lines_are_only_added(text: str) -> None:
    new = with_entry(text, "models", "own", FIELDS)
    before = yaml.safe_load(text) or {}
    models = before.get("models") or {}
    assert yaml.safe_load(new) == {**before, "models": {**models, "own": FIELDS}}
    assert ("\r" in new) == ("\r" in text)
    diff = list(difflib.ndiff(text.splitlines(), new.splitlines()))
    gone = [line[2:] for line in diff if line.startswith("- ")]
    assert all("{}" in line for line in gone)
    for line in text.splitlines():
        comment = line.partition("#")[2]
        assert comment in new


def test_the_sections_own_indentation_is_taken() -> None:
    assert "\n    own:\n      role: generator\n" in with_entry(COMMENTED, "models", "own", FIELDS)


def test_an_entry_is_replaced_and_its_neighbours_stay() -> None:
    new = with_entry(COMMENTED, "models", "two", FIELDS)
    assert yaml.safe_load(new)["models"]["two"] == FIELDS
    before, after = COMMENTED.split("    two:\n")
    assert new.startswith(before)
    assert new.endswith(after[after.index("    # behind two") :])
    assert "Long" not in new


@pytest.mark.parametrize(
    "text",
    [
        "models: {one: {a: 1}}\n",
        "{models: {one: {a: 1}}}\n",
        "models:\n  one: &x {a: 1}\n  two: *x\n".replace("one", "own"),
        "- models\n",
        "models: text\n",
        "models:\n  one:\n    notes: |\n      a text that a line's end would change",
        "models:\n  a: {}\n...\n---\nmodels: {}\n",
    ],
)
def test_what_cannot_be_edited_is_not_and_says_what_to_add(text: str) -> None:
    with pytest.raises(CannotEditError) as caught:
        with_entry(text, "models", "own", FIELDS)
    message = str(caught.value)
    assert "\n" not in message
    line = message.partition("`own: ")[2].rstrip("`")
    assert yaml.safe_load(line) == FIELDS
