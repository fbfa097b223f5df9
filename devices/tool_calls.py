"""From the text of a tool call to the call: JSON objects, and Qwen3-Coder's XML.

Models get the envelope wrong more often than the arguments: a brace too few or too many, prose or a
code fence around the object. What can be read is read. Arguments, though, are passed on exactly as
the model wrote them, malformed ones too: only who runs the tool may judge them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from edge_runner.messages import ToolSpec

ARGUMENT_KEYS = ("arguments", "parameters")

_DECODER = json.JSONDecoder(strict=False)  # raw newlines in strings, which small models write
_BLANK = re.compile(r"\s*")
_SEPARATORS = re.compile(r"[\s,;\[\]]*")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')

_FUNCTION = re.compile(r"<function=([^>\n]*)>")
_FUNCTION_END = re.compile(r"\s*</function>")
# A closing tag counts only where the format lets one stand: values may contain tags themselves.
_PARAMETER = re.compile(
    r"\s*<parameter=([^>\n]*)>(.*?)"
    r"(?:</parameter>(?=\s*(?:<parameter=|</function>|\Z))"
    r"|(?=\n<parameter=|</function>\s*(?:<function=|\Z))|\Z)",
    re.DOTALL,
)


class Call(NamedTuple):
    """A tool call without its id. `arguments` is JSON text, or whatever stood in its place."""

    name: str
    arguments: str


def closed_calls(body: str, tools: Mapping[str, ToolSpec]) -> list[Call]:
    """The calls in a block whose closing tag was seen; none if not even a name can be read."""
    if _FUNCTION.search(body) and not body.lstrip().startswith("{"):
        return [call for call, _ in _xml_calls(body, tools)]
    calls = []
    at = body.find("{")
    while at >= 0:
        call, end, _ = _read_object(body, at)
        if call is None:
            break
        calls.append(call)
        at = body.find("{", end)
    return calls


def complete_calls(body: str, tools: Mapping[str, ToolSpec]) -> list[Call]:
    """The calls in a block that was never closed: only if it holds complete calls, nothing else."""
    if _FUNCTION.match(body.lstrip()):
        found = _xml_calls(body, tools)
        return [call for call, complete in found] if all(complete for _, complete in found) else []
    calls = []
    at = _after(_SEPARATORS, body, 0)
    while at < len(body):
        call, at, complete = _read_object(body, at) if body[at] == "{" else (None, at, False)
        if call is None or not complete:
            return []
        calls.append(call)
        at = _after(_SEPARATORS, body, at)
    return calls


def bare_call(text: str, names: Collection[str]) -> Call | None:
    """The call a JSON object without any tag makes: only of an offered tool, with arguments."""
    call, _, complete = _read_object(text, 0, need_arguments=True)
    return call if call is not None and complete and call.name in names else None


def _read_object(text: str, at: int, need_arguments: bool = False) -> tuple[Call | None, int, bool]:
    """The call written as the object at `text[at]`, where it ends, and whether it is all there."""
    name: str | None = None
    arguments: str | None = None
    at += 1
    while True:
        at = _after(_SEPARATORS, text, at)
        if at >= len(text) or text[at] != '"':
            break
        try:
            key, at = _DECODER.raw_decode(text, at)
            colon = _after(_BLANK, text, at)
            start = _after(_BLANK, text, colon + 1)
        except ValueError:
            break
        try:
            value, at = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            if key not in ARGUMENT_KEYS:
                break
            named = name or ((found := _NAME.search(text)) and found[1])
            raw = text[start:].strip().removesuffix("}").rstrip()
            return (Call(named, raw) if named else None), len(text), False
        if key == "name" and isinstance(value, str):
            name = value
        elif key in ARGUMENT_KEYS:
            # OpenAI's own form has the JSON text in a string.
            arguments = value if isinstance(value, str) else text[start:at]
        elif key == "function" and isinstance(value, dict) and name is None:
            inner, _, _ = _read_object(text, start)
            if inner is not None:
                name, arguments = inner
    complete = at < len(text) and text[at] == "}"
    if not name or (need_arguments and arguments is None):
        return None, at, complete
    return Call(name, "{}" if arguments is None else arguments), at + complete, complete


def _xml_calls(body: str, tools: Mapping[str, ToolSpec]) -> list[tuple[Call, bool]]:
    """Each `<function=...>` in the block, and whether its end was there."""
    calls = []
    at = 0
    while function := _FUNCTION.search(body, at):
        name = function[1].strip()
        at = function.end()
        members = []
        while parameter := _PARAMETER.match(body, at):
            at = parameter.end()
            key = parameter[1].strip()
            members.append(
                f"{json.dumps(key, ensure_ascii=False)}: "
                f"{_xml_value(parameter[2], _types(tools.get(name), key))}"
            )
        end = _FUNCTION_END.match(body, at)
        if end is None and body[at:].strip():  # something that is no parameter: pass all of it on
            stop = body.find("</function>", at)
            inner = body[function.end() : stop if stop >= 0 else len(body)]
            calls.append((Call(name, inner.strip()), stop >= 0))
            at = stop if stop >= 0 else len(body)
        else:
            calls.append((Call(name, "{" + ", ".join(members) + "}"), end is not None))
            at = end.end() if end else len(body)
    return [(call, complete) for call, complete in calls if call.name]


def _xml_value(text: str, types: Collection[str]) -> str:
    """A parameter's value as JSON text: a string where the schema says so or says nothing."""
    text = text.removeprefix("\n").removesuffix("\n")
    plain = text.strip()
    if not types or ("string" in types and not (plain == "null" and "null" in types)):
        return json.dumps(text, ensure_ascii=False)
    plain = {"True": "true", "False": "false", "None": "null"}.get(plain, plain)
    try:
        json.loads(plain, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    return plain


def _types(tool: ToolSpec | None, key: str) -> set[str]:
    """The JSON types the tool's schema allows for a parameter; empty when it does not say."""
    properties = tool.parameters.get("properties") if tool else None
    schema = properties.get(key) if isinstance(properties, Mapping) else None
    return _schema_types(schema)


def _schema_types(schema: Any) -> set[str]:
    if not isinstance(schema, Mapping):
        return set()
    own = schema.get("type", ())
    types = {own} if isinstance(own, str) else set(own)
    for word in ("anyOf", "oneOf"):
        types.update(*(_schema_types(choice) for choice in schema.get(word, ())))
    return types


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _refuse(constant: str) -> None:
    raise ValueError(constant)
