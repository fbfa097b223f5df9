"""What a reply's text says, in every format, cut anywhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runner.devices.reply import ParsedReply, ReplyParser
from edge_runner.engines import ToolFormat
from edge_runner.messages import ToolSpec

BASH = ToolSpec("bash", "Run a command", {"properties": {"command": {"type": "string"}}})
EDIT = ToolSpec(
    "edit",
    "Edit a file",
    {
        "properties": {
            "path": {"type": "string"},
            "line": {"type": "integer"},
            "options": {"type": "object"},
            "force": {"type": "boolean"},
            "note": {"type": ["string", "null"]},
            "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        }
    },
)
NOW = ToolSpec("now")
TOOLS = (BASH, EDIT, NOW)
FORMATS: tuple[ToolFormat, ...] = ("none", "hermes", "qwen3-coder", "llama3", "json")

LS = '{"name": "bash", "arguments": {"command": "ls"}}'
HERMES = f"<tool_call>\n{LS}\n</tool_call>"
XML = (
    "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>"
)
LS_ARGUMENTS = '{"command": "ls"}'

Said = tuple[str, str, list[tuple[str, str]]]


def parse(
    tool_format: ToolFormat,
    chunks: Iterable[str],
    tools: tuple[ToolSpec, ...] = TOOLS,
    stop: tuple[str, ...] = (),
    reasoning_open: bool = False,
) -> tuple[Said, str]:
    """What the reply says, and the text of its tool-call deltas. Checks that deltas add up."""
    parser = ReplyParser(tool_format, tools, stop, reasoning_open=reasoning_open)
    deltas = []
    for chunk in chunks:
        deltas += parser.feed(chunk)
    reply: ParsedReply = parser.finish()
    deltas += reply.deltas
    shown = {"content": "", "reasoning": "", "tool_call": ""}
    for channel, text in deltas:
        assert text
        shown[channel] += text
    assert shown["content"] == reply.text
    assert shown["reasoning"] == reply.reasoning
    assert [call.id for call in reply.tool_calls] == [
        f"call_{i}" for i in range(len(reply.tool_calls))
    ]
    calls = [(call.name, call.arguments) for call in reply.tool_calls]
    return (reply.text, reply.reasoning, calls), shown["tool_call"]


def says(tool_format: ToolFormat, text: str, **options: object) -> Said:
    """What `text` says, the same at every single split and character by character."""
    whole = parse(tool_format, [text], **options)  # type: ignore[arg-type]
    assert parse(tool_format, text, **options) == whole  # type: ignore[arg-type]
    for cut in range(1, len(text)):
        assert parse(tool_format, [text[:cut], text[cut:]], **options) == whole  # type: ignore[arg-type]
    return whole[0]


LS_CALL = [("bash", LS_ARGUMENTS)]


class TestHermes:
    def test_one_call_without_any_content(self) -> None:
        assert says("hermes", HERMES) == ("", "", LS_CALL)

    def test_prose_and_several_calls(self) -> None:
        text = (
            f'Let me look.\n{HERMES}\n<tool_call>{{"name": "now", "arguments": {{}}}}</tool_call>\n'
        )
        assert says("hermes", text) == ("Let me look.", "", [*LS_CALL, ("now", "{}")])

    def test_text_around_a_call_keeps_the_space_between(self) -> None:
        assert says("hermes", f"before\n{HERMES}after") == ("before\nafter", "", LS_CALL)

    def test_a_call_to_an_unknown_tool_is_a_call(self) -> None:
        text = '<tool_call>{"name": "rm", "arguments": {"x": 1}}</tool_call>'
        assert says("hermes", text) == ("", "", [("rm", '{"x": 1}')])

    @pytest.mark.parametrize("cut", ["", "\n", "\n<", "\n</tool_call"])
    def test_a_complete_call_counts_without_its_closing_tag(self, cut: str) -> None:
        assert says("hermes", f"<tool_call>\n{LS}{cut}") == ("", "", LS_CALL)

    @pytest.mark.parametrize("end", ["", '{"na', LS[:-1], LS[:-10]])
    def test_a_call_cut_short_stays_content(self, end: str) -> None:
        text = f"Now:\n<tool_call>\n{end}"
        assert says("hermes", text) == (text, "", [])

    @pytest.mark.parametrize("command", ["echo </tool_call>", "grep '<tool_call>' <tool_call> x"])
    def test_tags_inside_a_string_are_part_of_it(self, command: str) -> None:
        arguments = json.dumps({"command": command})
        text = f'<tool_call>\n{{"name": "bash", "arguments": {arguments}}}\n</tool_call>'
        assert says("hermes", text) == ("", "", [("bash", arguments)])
        assert says("hermes", text[: -len("</tool_call>")]) == ("", "", [("bash", arguments)])

    def test_arguments_are_passed_on_as_written(self) -> None:
        arguments = '{ "command":"é\\u00e9\\n" ,\n"n": 1.50}'
        text = f'<tool_call>{{"arguments":{arguments}, "name":"bash"}}</tool_call>'
        assert says("hermes", text) == ("", "", [("bash", arguments)])

    @pytest.mark.parametrize(
        ("written", "arguments"),
        [
            ('{"command": "ls}', '{"command": "ls}'),
            ("{command: ls}", "{command: ls}"),
            ('{"command": ls -la}', '{"command": ls -la}'),
            ("ls -la", "ls -la"),
            ('{"a": [1, 2}', '{"a": [1, 2}'),
        ],
    )
    @pytest.mark.parametrize("end", ["\n", ""])
    def test_malformed_arguments_stay_what_they_are(
        self, written: str, arguments: str, end: str
    ) -> None:
        text = f'<tool_call>\n{{"name": "bash", "arguments": {written}}}{end}</tool_call> done'
        assert says("hermes", text) == ("done", "", [("bash", arguments)])

    def test_a_string_that_never_ends_does_not_swallow_the_next_call(self) -> None:
        broken = '<tool_call>{"name": "bash", "arguments": {"command": "ls}}</tool_call>'
        for between in (" and ", "\n"):
            text = f"{broken}{between}{HERMES}"
            said, _, calls = says("hermes", text)
            assert said == between.strip()
            assert calls == [("bash", '{"command": "ls}'), *LS_CALL]

    @pytest.mark.parametrize(
        "body",
        [
            LS[:-1],
            LS + "}",
            f"```json\n{LS}\n```",
            f"[{LS}]",
            '{"type": "function", "function": ' + LS + "}",
            '{"name": "bash", "arguments": ' + json.dumps(LS_ARGUMENTS) + "}",
            '{"name": "bash", "parameters": {"command": "ls"}}',
        ],
    )
    def test_a_readable_call_in_a_sloppy_envelope_is_a_call(self, body: str) -> None:
        assert says("hermes", f"<tool_call>\n{body}\n</tool_call>") == ("", "", LS_CALL)

    def test_raw_newlines_in_a_string(self) -> None:
        text = '<tool_call>{"name": "bash", "arguments": {"command": "a\nb"}}</tool_call>'
        assert says("hermes", text) == ("", "", [("bash", '{"command": "a\nb"}')])

    def test_a_missing_closing_tag_between_two_calls(self) -> None:
        assert says("hermes", f"<tool_call>{LS}\n{HERMES}") == ("", "", LS_CALL * 2)

    @pytest.mark.parametrize("body", ["garbage", "{}", '{"arguments": {}}', "[1]", ""])
    def test_a_block_without_a_name_stays_content(self, body: str) -> None:
        text = f"<tool_call>{body}</tool_call>"
        assert says("hermes", f"{text} ok") == (f"{text} ok", "", [])

    def test_a_call_without_arguments(self) -> None:
        assert says("hermes", '<tool_call>{"name": "now"}</tool_call>') == ("", "", [("now", "{}")])

    def test_the_xml_form_is_read_as_well(self) -> None:
        assert says("hermes", XML) == ("", "", LS_CALL)


class TestQwen3Coder:
    def test_values_follow_the_schema(self) -> None:
        text = (
            "Editing.\n<tool_call>\n<function=edit>\n<parameter=path>\n007\n</parameter>\n"
            '<parameter=line>\n5\n</parameter>\n<parameter=options>\n{"a": [1]}\n</parameter>\n'
            "<parameter=force>True</parameter>\n<parameter=note>null</parameter>"
            "<parameter=count>None</parameter>\n<parameter=other>7</parameter>\n"
            "</function>\n</tool_call>"
        )
        said, _, [(name, arguments)] = says("qwen3-coder", text)
        assert (said, name) == ("Editing.", "edit")
        assert json.loads(arguments) == {
            "path": "007",
            "line": 5,
            "options": {"a": [1]},
            "force": True,
            "note": None,
            "count": None,
            "other": "7",
        }

    def test_a_value_that_is_not_of_its_type_stays_text(self) -> None:
        text = "<function=edit><parameter=line>five</parameter></function>"
        assert says("qwen3-coder", text) == ("", "", [("edit", '{"line": "five"}')])

    def test_inner_newlines_stay_and_one_at_each_end_goes(self) -> None:
        text = XML.replace("ls", "\ncat <<EOF\n  a\n\nEOF\n")
        assert says("qwen3-coder", text)[2] == [
            ("bash", json.dumps({"command": "\ncat <<EOF\n  a\n\nEOF\n"}))
        ]

    @pytest.mark.parametrize(
        "value",
        ["</tool_call>", "a </parameter> b", "x\n</tool_call>\n<tool_call>\ny", "</function>"],
    )
    @pytest.mark.parametrize("outer", [True, False])
    def test_tags_inside_a_value_are_part_of_it(self, value: str, outer: bool) -> None:
        inner = f"<function=bash>\n<parameter=command>\n{value}\n</parameter>\n</function>"
        text = f"<tool_call>\n{inner}\n</tool_call>" if outer else inner
        assert says("qwen3-coder", f"{text}\n") == (
            "", "", [("bash", json.dumps({"command": value}))]
        )  # fmt: skip

    @pytest.mark.parametrize("end", ["", "\n</tool_call>\n", "\n"])
    def test_the_outer_tag_may_be_missing(self, end: str) -> None:
        text = "Go.\n<function=bash><parameter=command>ls</parameter></function>" + end
        assert says("qwen3-coder", text) == ("Go.", "", LS_CALL)

    def test_several_functions_and_blocks(self) -> None:
        two = "<function=now></function>\n<function=nope><parameter=a>1</parameter></function>"
        text = f"<tool_call>{two}</tool_call>\n{XML}"
        assert says("qwen3-coder", text) == (
            "", "", [("now", "{}"), ("nope", '{"a": "1"}'), *LS_CALL]
        )  # fmt: skip

    def test_text_where_parameters_belong_is_not_dropped(self) -> None:
        text = "<tool_call><function=bash>\nls -la\n</function></tool_call>"
        assert says("qwen3-coder", text) == ("", "", [("bash", "ls -la")])

    @pytest.mark.parametrize("lost", ["</parameter>\n", "</function>\n"])
    def test_one_missing_tag_is_forgiven(self, lost: str) -> None:
        assert says("qwen3-coder", XML.replace(lost, "") + " ok") == ("ok", "", LS_CALL)

    def test_a_call_cut_short_stays_content(self) -> None:
        for end in range(len("<tool_call>"), XML.index("</function>") + len("</function")):
            assert parse("qwen3-coder", [XML[:end]])[0] == (XML[:end], "", [])

    def test_hermes_json_is_read_as_well(self) -> None:
        assert says("qwen3-coder", HERMES) == ("", "", LS_CALL)


class TestLlama3:
    def test_the_whole_reply_is_an_object(self) -> None:
        text = '{"name": "bash", "parameters": {"command": "ls"}}'
        assert says("llama3", text) == ("", "", LS_CALL)
        assert says("llama3", f'{text}; {{"name": "now", "parameters": {{}}}}') == (
            "", "", [*LS_CALL, ("now", "{}")]
        )  # fmt: skip

    def test_the_python_tag_makes_any_name_a_call(self) -> None:
        text = '<|python_tag|>{"name": "zip", "parameters": {"a": 1}}'
        assert says("llama3", f"Ok. {text}") == ("Ok.", "", [("zip", '{"a": 1}')])

    def test_python_after_the_tag_is_content(self) -> None:
        text = "<|python_tag|>print(1)"
        assert says("llama3", text) == (text, "", [])


@pytest.mark.parametrize("tool_format", [name for name in FORMATS if name != "none"])
class TestWholeReply:
    @pytest.mark.parametrize(
        "text",
        [
            LS,
            f"\n {LS} \n",
            f"```json\n{LS}\n```",
            f"```\n{LS}\n```\n",
            f"```json\n{LS}",
            f"[{LS}]",
            '{"parameters": {"command": "ls"}, "name": "bash"}',
        ],
    )
    def test_an_object_that_names_an_offered_tool(self, tool_format: ToolFormat, text: str) -> None:
        assert says(tool_format, text) == ("", "", LS_CALL)

    def test_several_objects(self, tool_format: ToolFormat) -> None:
        text = f'[{LS}, {{"name": "now", "arguments": {{}}}}]'
        assert says(tool_format, text) == ("", "", [*LS_CALL, ("now", "{}")])

    @pytest.mark.parametrize(
        "text",
        [
            '{"name": "rm", "arguments": {"command": "ls"}}',
            '{"name": "bash"}',
            '{"name": "bash", "age": 3}',
            '{"answer": [1, {"a": "}"}]}',
            f"{LS} That lists the files.",
            f"```json\n{LS}\n```\nThat lists the files.",
            f"```python\n{LS}\n```",
            f"I would call\n```json\n{LS}\n```",
            LS[:-1],
            "[1, 2, 3]",
            "[link](target)",
            "`code`",
            "{",
            "   ",
            "",
        ],
    )
    def test_anything_else_is_content(self, tool_format: ToolFormat, text: str) -> None:
        assert says(tool_format, text) == (text, "", [])

    def test_without_tools_nothing_is_a_call(self, tool_format: ToolFormat) -> None:
        assert says(tool_format, LS, tools=()) == (LS, "", [])

    def test_it_may_follow_reasoning(self, tool_format: ToolFormat) -> None:
        assert says(tool_format, f"<think>\nhm\n</think>\n\n{LS}") == ("", "hm", LS_CALL)

    def test_the_call_shows_as_soon_as_its_head_is_there(self, tool_format: ToolFormat) -> None:
        parser = ReplyParser(tool_format, TOOLS)
        head = '{"name": "bash", "arguments":'
        assert parser.feed(head) == [("tool_call", head)]


class TestReasoning:
    def test_it_has_its_own_channel(self) -> None:
        assert says("hermes", "<think>\nhm\n\nhm\n</think>\n\nYes.") == ("Yes.", "hm\n\nhm", [])

    def test_the_prompt_may_have_opened_it(self) -> None:
        text = "\nhm\n</think>\n\nYes."
        assert says("hermes", text, reasoning_open=True) == ("Yes.", "hm", [])

    def test_it_may_never_end(self) -> None:
        assert says("none", "<think>hm <tool_call>") == ("", "hm <tool_call>", [])

    def test_calls_inside_it_are_none(self) -> None:
        text = f"<think>I could {HERMES}</think>{HERMES}"
        assert says("hermes", text) == ("", f"I could {HERMES}", LS_CALL)

    def test_a_stray_end_is_text(self) -> None:
        assert says("hermes", "a </think> b") == ("a </think> b", "", [])


def test_without_a_tool_format_tags_are_text() -> None:
    assert says("none", HERMES) == (HERMES, "", [])
    assert says("none", LS) == (LS, "", [])


def test_stop_strings_end_the_reply_and_never_show() -> None:
    parser = ReplyParser("hermes", TOOLS, ("Observation:",))
    assert parser.feed("Done. Obs") == [("content", "Done.")]
    assert not parser.stopped
    assert parser.feed("ervation: x") == []
    assert parser.stopped
    assert parser.feed("more") == []
    assert parser.finish().text == "Done. "


def test_content_is_shown_at_once_unless_it_may_be_a_tag() -> None:
    parser = ReplyParser("hermes", TOOLS)
    assert parser.feed("Hello") == [("content", "Hello")]
    assert parser.feed(" x <tool") == [("content", " x")]
    assert parser.feed("s>") == [("content", " <tools>")]


PIECES = st.sampled_from(
    [
        "Prose. ", "a < b", "\n", " ", "é🙂", "<", "</", "<tool", "<tool_call>", "</tool_call>",
        "<think>", "</think>", "<function=bash>", "</function>", "<parameter=command>",
        "</parameter>", "<|python_tag|>", "```json\n", "```", LS, HERMES, XML, '{"name": "',
        '{"name": "bash", "arguments": {"command": "ls}}', '"', "\\", "{", "}", "[", "]", ";",
        'bash", "arguments":', "STOP", "ST",
    ]
)  # fmt: skip


@settings(max_examples=400)
@given(st.sampled_from(FORMATS), st.lists(PIECES, max_size=14), st.booleans(), st.data())
def test_no_split_changes_anything(
    tool_format: ToolFormat, parts: list[str], reasoning_open: bool, data: st.DataObject
) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = parse(tool_format, [text], stop=("STOP",), reasoning_open=reasoning_open)
    for split in (chunks, list(text)):
        assert parse(tool_format, split, stop=("STOP",), reasoning_open=reasoning_open) == whole


@settings(max_examples=200)
@given(
    st.sampled_from(["hermes", "qwen3-coder"]),
    st.lists(st.text("abc .,\n", max_size=12), min_size=2, max_size=4),
    st.text(max_size=30),
)
def test_content_never_holds_a_tag_fragment_of_a_call(
    tool_format: ToolFormat, prose: list[str], command: str
) -> None:
    arguments = json.dumps({"command": command})
    call = f'<tool_call>\n{{"name": "bash", "arguments": {arguments}}}\n</tool_call>'
    text = call.join(prose)
    parser = ReplyParser(tool_format, TOOLS)
    shown = [delta for char in text for delta in parser.feed(char)]
    reply = parser.finish()
    content = "".join(text for channel, text in shown + reply.deltas if channel == "content")
    assert not set(content) & set("<>{}")
    assert "".join(content.split()) == "".join("".join(prose).split())
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("bash", arguments)] * (
        len(prose) - 1
    )


BROKEN = '<tool_call>{"a</tool_call>'
VALUE = "</tool_call></parameter>\n</function>"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            lambda n: f'<tool_call>{{"name":"bash","arguments":"{"x" * n * 8}"}}', id="call"
        ),
        pytest.param(lambda n: "x <" * n, id="almost tags"),
        pytest.param(lambda n: " " * n * 8, id="white space"),
        pytest.param(lambda n: '{"a":"' + "y" * n * 8, id="object"),
        pytest.param(lambda n: '{"a":1}\n' * n, id="objects"),
        pytest.param(lambda n: BROKEN * n, id="broken strings"),
        pytest.param(lambda n: HERMES * (n // 8), id="many calls"),
        pytest.param(
            lambda n: f"<function=bash><parameter=command>{VALUE * n}", id="tags in values"
        ),
        pytest.param(lambda n: "<tool_call>" * n, id="opening tags"),
        pytest.param(lambda n: "<think></think>" * n, id="thoughts"),
    ],
)
@pytest.mark.parametrize("by_character", [True, False])
def test_time_is_linear_in_the_length(text: Callable[[int], str], by_character: bool) -> None:
    def best_s(size: int) -> float:
        reply = text(size)
        times = []
        for _ in range(3):
            start = time.process_time()
            parse("qwen3-coder", reply if by_character else [reply])
            times.append(time.process_time() - start)
        return min(times)

    # Eight times the text: 8 if linear, 64 if quadratic.
    assert best_s(2000) < 30 * max(best_s(250), 0.0005)
