"""HTML that foreign text cannot break out of.

Model names, session ids, errors and reasons come from outside. Every string becomes text: only
`Html`, which `tag` makes, is taken as markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, TypeAlias

from edge_runner.results.files import encode
from edge_runner.results.table import visible


class Html(str):
    """Markup that is safe to put into the page as it is."""

    __slots__ = ()


Content: TypeAlias = "str | int | Iterable[Content] | None"

LABEL_LIMIT = 40

_VOID = frozenset({"br", "col", "hr", "meta"})


def text(value: object) -> Html:
    """`value` as text: escaped, with control and bidirectional characters made visible."""
    plain = str(value)
    return Html(escape(plain if plain.isprintable() else visible(plain)))


def label(value: object) -> str:
    """`value` as text for Plotly's labels, which know a few tags and no entity of a quote. Long
    ones lose their middle: a label does not wrap."""
    shown = str(value)
    if len(shown) > LABEL_LIMIT:
        shown = f"{shown[: LABEL_LIMIT // 2]}…{shown[1 - LABEL_LIMIT // 2 :]}"
    return text(shown).replace("&quot;", '"').replace("&#x27;", "'")


def tag(name: str, *content: Content, **attributes: object) -> Html:
    """One element. Attribute names lose a trailing underscore and have hyphens for the others;
    None and False leave an attribute out, True gives it no value."""
    head = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{head}>")
    return Html(f"<{name}{head}>{join(content)}</{name}>")


def join(content: Content) -> Html:
    """The content's parts, one after the other."""
    match content:
        case None:
            return Html("")
        case Html():
            return content
        case str() | int():
            return text(content)
        case _:
            return Html("".join(map(join, content)))


def script_json(value: Any) -> Html:
    """JSON for a data block. No character in it can end the element or, read as a script, a line;
    `JSON.parse` gives the same value back."""
    document = encode(value).decode()
    for char in "<>&\u2028\u2029":
        document = document.replace(char, f"\\u{ord(char):04x}")
    return Html(document)
