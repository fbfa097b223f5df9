"""Chat templates: the text Jinja would make, and no harm from templates that mean some."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import psutil
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edge_runner.devices.chat_template import (
    CHATML,
    ChatTemplate,
    detect_tool_format,
    message_dicts,
    tool_dict,
)
from edge_runner.devices.template_renderer import TemplateLimits
from edge_runner.errors import EngineClosedError, EngineError, ModelFileError
from edge_runner.messages import Message, ToolCall, ToolSpec

FOLDER = Path(__file__).parent / "templates"
TEMPLATES = sorted(path.stem for path in FOLDER.glob("*.jinja"))
NOW = datetime(2026, 3, 9, 12, 30)  # noqa: DTZ001 - a template's date has no zone
USER = (Message("user", "hi"),)

BASH = ToolSpec(
    "bash",
    "Run a command, é <b> & 'quotes'",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": " What to run "},
            "timeout": {"type": ["integer", "null"], "default": None},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["command"],
    },
)
NOW_TOOL = ToolSpec("now", "The time", {"type": "object", "properties": {}})


def call(id_: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id_, name, arguments)


SYSTEM = Message("system", " You are a <test> & more.\n")
CONVERSATIONS: dict[str, tuple[Message, ...]] = {
    "one message": USER,
    "system": (SYSTEM, *USER),
    "several turns": (
        SYSTEM,
        Message("user", "  blanks, é🙂\n\n{{ not a template }} {% nor this %}"),
        Message("assistant", "\nYes.\n", "I thought\nabout it\n"),
        Message("user", ""),
        Message("assistant", "<think>\ninline\n</think>\n\nNo."),
        Message("user", "<tool_response>not one</tool_response>"),
    ),
    "tools": (
        SYSTEM,
        Message("user", "list"),
        Message("assistant", "Listing.", "", (call("a", "bash", '{"z": 1, "command": "ls\\n"}'),)),
        Message("tool", "file <a>\n", tool_call_id="a"),
        Message(
            "assistant",
            reasoning="more",
            tool_calls=(call("b", "bash", '{"env": {"A": "é"}, "timeout": null, "ok": true}'),),
        ),
        Message("tool", "", tool_call_id="b"),
    ),
    "several calls": (
        Message("user", "go"),
        Message(
            "assistant",
            tool_calls=(call("a", "now", "{}"), call("b", "bash", '{"n": [1, 2.5, 1e3, "x"]}')),
        ),
        Message("tool", "12:30", tool_call_id="a"),
        Message("tool", "done", tool_call_id="b"),
        Message("assistant", "Both are done."),
        Message("user", "thanks"),
    ),
}


class GenerationTag(jinja2.ext.Extension):
    """As in transformers: the block renders its body."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's interface

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def by_jinja(
    source: str, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...], **more: Any
) -> str:
    """What transformers would make of it."""

    def tojson(
        value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment.from_string(source).render(
        messages=message_dicts(messages),
        tools=[tool_dict(tool) for tool in tools] or None,
        bos_token="<s>",
        eos_token="</s>",
        **more,
    )


def source_of(name: str) -> str:
    return (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")


def outcome(render: Callable[[], str]) -> str:
    """The text, or that there is none: both sides must refuse the same conversations."""
    try:
        return render()
    except (EngineError, jinja2.exceptions.TemplateError):
        return "refused"


@pytest.fixture(scope="module")
def opened() -> Iterator[Callable[[str], ChatTemplate]]:
    """Every template once, by name."""
    templates: dict[str, ChatTemplate] = {}

    def open_(name: str) -> ChatTemplate:
        if name not in templates:
            templates[name] = ChatTemplate(
                source_of(name), bos_token="<s>", eos_token="</s>", name=name, now=NOW
            )
        return templates[name]

    yield open_
    for template in templates.values():
        template.close()


class TestAgainstJinja:
    @pytest.mark.parametrize("name", TEMPLATES)
    @pytest.mark.parametrize("conversation", CONVERSATIONS)
    @pytest.mark.parametrize("tools", [(), (BASH, NOW_TOOL)], ids=["no tools", "tools"])
    @pytest.mark.parametrize("prompt", [True, False])
    def test_same_text(
        self,
        opened: Callable[[str], ChatTemplate],
        name: str,
        conversation: str,
        tools: tuple[ToolSpec, ...],
        prompt: bool,
    ) -> None:
        messages = CONVERSATIONS[conversation]
        ours = outcome(lambda: opened(name).render(messages, tools, add_generation_prompt=prompt))
        assert ours == outcome(
            lambda: by_jinja(source_of(name), messages, tools, add_generation_prompt=prompt)
        )

    @pytest.mark.parametrize("name", TEMPLATES)
    def test_same_text_on_real_conversations(
        self,
        opened: Callable[[str], ChatTemplate],
        name: str,
        replay: list[tuple[tuple[Message, ...], tuple[ToolSpec, ...]]],
    ) -> None:
        for number, (messages, tools) in enumerate(replay):
            for end in (2, len(messages) if number % 4 == 0 else len(messages) // 2):
                part = messages[:end]
                ours = outcome(partial(opened(name).render, part, tools))
                assert ours == outcome(
                    partial(by_jinja, source_of(name), part, tools, add_generation_prompt=True)
                )

    @pytest.mark.parametrize("thinking", [True, False])
    def test_variables_reach_the_template(
        self, opened: Callable[[str], ChatTemplate], thinking: bool
    ) -> None:
        variables = {"enable_thinking": thinking}
        text = opened("qwen3-like").render(USER, variables=variables)
        assert text.endswith("</think>\n\n") is not thinking
        assert text == by_jinja(
            source_of("qwen3-like"), USER, (), add_generation_prompt=True, **variables
        )

    @pytest.mark.parametrize(
        "source",
        [
            "{{ value }}|{{ value | string }}|{{ value ~ '' }}",
            "{{ value | tojson }}|{{ value | tojson(indent=2) }}",
            "{{ value | tojson(sort_keys=true) }}|{{ value | tojson(separators=(',', ':')) }}",
            "{% for key, item in value.items() %}{{ key }}={{ item }};{% endfor %}",
            "{% for k in value %}{% if loop.index > 2 %}{% break %}{% endif %}{{ k }}{% endfor %}",
            "{% for k in value %}{% if loop.first %}{% continue %}{% endif %}{{ k }}{% endfor %}",
            "{{ value.list[::-1] }}{{ value.list[1:] }}{{ value.list[:-1] }}{{ value.text[-1] }}",
            "{{ value.text is string }}{{ value.text is sequence }}{{ value.text is iterable }}",
            "{{ value is mapping }}{{ value is sequence }}{{ value.list is sequence }}",
            "{{ 1 is sequence }}{{ none is sequence }}{{ none is iterable }}{{ 1 is iterable }}",
            "{% if tools is iterable and tools | length > 0 %}tools{% endif %}",
            "{{ range(3) is iterable }}{{ value.items() is iterable }}{{ value is iterable }}",
            "{{ value.none is none }}{{ value.yes is true }}{{ value.gone is defined }}",
            "{{ value.text.strip() }}{{ value.text.split('x') }}{{ value.text.startswith(' x') }}",
            "{{ value.text | trim | length }}{{ value.text.replace('x', 'y') | upper }}",
            "{% set a = namespace(n=0) %}{% for i in [1] %}{% set a.n = i %}{% endfor %}{{ a.n }}",
            "{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, b=3) }}",
            "{% set x %}  block {{ 1 }} {% endset %}{{ x | trim }}",
            "  {% if true %}\n  kept\n  {% endif %}\nend\n\n",
            "{{- 1 -}}  \n {#- comment -#} \n 2 {%- if true %} 3 {%+ endif %}",
            "{% generation %} a {% endgeneration %}\n{%- generation -%} b {%- endgeneration -%}",
            "{{ 7 // 2 }} {{ 7 / 2 }} {{ 7 % 4 }} {{ 2 ** 3 }} {{ 'a' * 3 }} {{ [1] + [2] }}",
            "{{ value.list | map('string') | join(',') }}{{ value.list | last }}",
            "{{ value.gone | default('x') }}{{ value.none or 'x' }}{{ 'a' if value.no else 'b' }}",
            "{{ [value] | selectattr('yes', 'equalto', true) | list | length }}",
            "{{ value.get('gone', 'fallback') }}{{ 'list' in value }}{{ value.keys() | list }}",
            "{{ strftime_now('%d %b %Y') }}",
        ],
    )  # fmt: skip
    def test_constructs_that_templates_use(self, source: str) -> None:
        value = {
            "z": 1.0, "text": " xéx<&'\" ", "list": [3, "a", None, True], "none": None,
            "yes": True, "no": False, "nested": {"b": [], "a": {}},
        }  # fmt: skip
        with ChatTemplate(source, now=NOW) as template:
            text = template.render(USER, variables={"value": value})
        assert text == by_jinja(source, USER, (), add_generation_prompt=True, value=value)


class TestMessages:
    def test_arguments_are_an_object_only_if_they_are_one(self) -> None:
        texts = ['{"a": 1}', "[1]", "not json", '"text"', '{"a": NaN}', '{"a":' * 5000]
        message = Message("assistant", tool_calls=tuple(call("x", "t", text) for text in texts))
        [plain] = message_dicts((message,))
        passed = [each["function"]["arguments"] for each in plain["tool_calls"]]
        assert passed == [{"a": 1}, *texts[1:]]

    def test_a_tools_message_gets_the_name_of_the_latest_call_with_its_id(self) -> None:
        messages = (
            Message("assistant", tool_calls=(call("call_0", "first", "{}"),)),
            Message("tool", "1", tool_call_id="call_0"),
            Message("assistant", tool_calls=(call("call_0", "second", "{}"),)),
            Message("tool", "2", tool_call_id="call_0"),
            Message("tool", "3", tool_call_id="unknown"),
        )
        names = [plain.get("name") for plain in message_dicts(messages)]
        assert names == [None, "first", None, "second", None]

    def test_text_of_any_kind_arrives(self) -> None:
        odd = "\x00\u2028\ufeff\U0001f642 \ud800 \ud83d\ude42"
        with ChatTemplate("{{ messages[0].content }}{{ n }}") as template:
            text = template.render((Message("user", odd),), variables={"n": 10**30})
        assert text == "\x00\u2028\ufeff\U0001f642 \ufffd \U0001f642" + str(10**30)

    def test_any_mapping_is_a_schema(self) -> None:
        from types import MappingProxyType

        tool = ToolSpec("t", parameters=MappingProxyType({"type": "object"}))
        with ChatTemplate("{{ tools | tojson }}") as template:
            text = template.render(USER, (tool,))
        assert (
            text
            == '[{"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}]'
        )


class TestChatml:
    def test_the_format(self) -> None:
        with ChatTemplate(CHATML) as template:
            text = template.render((SYSTEM, Message("user", "hi\n")))
            assert not template.supports_tools
        assert text == (
            "<|im_start|>system\n You are a <test> & more.\n<|im_end|>\n"
            "<|im_start|>user\nhi\n<|im_end|>\n<|im_start|>assistant\n"
        )


@pytest.mark.parametrize(
    ("name", "tools", "tool_format"),
    [
        ("smollm2", False, "none"),
        ("qwen2.5-coder", True, "hermes"),
        ("qwen3-like", True, "hermes"),
        ("hermes-like", True, "hermes"),
        ("qwen3-coder-like", True, "qwen3-coder"),
        ("llama3.1-like", True, "llama3"),
        ("mistral-like", True, "json"),
    ],
)
def test_what_a_template_says_of_tools(
    opened: Callable[[str], ChatTemplate], name: str, tools: bool, tool_format: str
) -> None:
    assert opened(name).supports_tools is tools
    assert detect_tool_format(source_of(name)) == tool_format


def test_no_template_has_no_tool_format() -> None:
    assert detect_tool_format(None) == "none"
    assert detect_tool_format("") == "none"


def test_a_template_that_refuses_a_system_message_may_still_know_tools() -> None:
    source = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{{ tools | tojson }}"
    )
    with ChatTemplate(source) as template:
        assert template.supports_tools


QUICK = TemplateLimits(memory_bytes=64 << 20, output_bytes=1 << 20, instructions=300_000)
PATIENT = TemplateLimits(memory_bytes=64 << 20, instructions=10**15, time_ns=300_000_000)
SMALL = TemplateLimits(memory_bytes=64 << 20, output_bytes=1 << 20)
NESTED_LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
DOUBLING = (
    "{% set a = namespace(x='x') %}{% for i in range(60) %}{% set a.x = a.x ~ a.x %}{% endfor %}"
)

HARMFUL = [
    pytest.param(NESTED_LOOPS, QUICK, "ran out of its instruction limit", id="nested loops"),
    pytest.param(NESTED_LOOPS, PATIENT, "ran out of its time limit", id="time"),
    pytest.param(DOUBLING, SMALL, "ran out of its memory limit", id="doubling"),
    pytest.param(
        "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('ab') }}",
        SMALL, "ran out of its memory limit", id="doubling by recursion",
    ),
    pytest.param(
        "{{ '{:>1000000000}'.format(1) }}", QUICK, "ran out of its memory limit", id="padding"
    ),
    pytest.param(
        "{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}",
        SMALL, "ran out of its memory limit", id="large output",
    ),
    pytest.param(
        "{% for i in range(2000) %}{{ messages[0].content * 1000 }}{% endfor %}",
        SMALL, "ran out of its output limit", id="output",
    ),
    pytest.param("{{ 'x' * 10**10 }}", QUICK, "ran out of its instruction limit", id="repetition"),
    pytest.param("{{ range(10**12) | list }}", QUICK, "too many elements", id="huge range"),
    pytest.param("{{ ['x'] * 10**9 }}", QUICK, "too large", id="huge list"),
    pytest.param("{{ 2 ** 1000000000 }}", QUICK, "unable to calculate", id="huge number"),
    pytest.param(
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        QUICK, "recursion limit exceeded", id="deep macros",
    ),
    pytest.param("{% include 'chat_template' %}", QUICK, "could not render include", id="include"),
    pytest.param("{% extends 'chat_template' %}", QUICK, "cycle", id="extends"),
    pytest.param("{% include '/etc/passwd' %}", QUICK, "non-existing template", id="file"),
    pytest.param("{% import 'os' as os %}", QUICK, "non-existing template", id="import"),
    pytest.param("{{ open('/etc/passwd') }}", QUICK, "unknown function", id="open"),
    pytest.param("{{ messages[0].__class__.__mro__ }}", QUICK, "undefined value", id="attributes"),
    pytest.param("{{ ''.__class__.__base__ }}", QUICK, "undefined value", id="string attributes"),
    pytest.param(
        "{{ messages[0].get.__self__.__class__ }}", QUICK, "undefined value", id="bound method"
    ),
    pytest.param("{{ strftime_now.__self__.year }}", QUICK, "undefined value", id="function"),
    pytest.param(
        "{{ '{0.__class__}'.format(messages) }}", QUICK, "invalid operation", id="format string"
    ),
    pytest.param(
        "{{ raise_exception('no\n' ~ 'x' * 5000) }}",
        QUICK, "refused the conversation: no xxx", id="raise_exception",
    ),
    pytest.param("{{ messages | nope }}", QUICK, "unknown filter", id="unknown filter"),
]  # fmt: skip


class TestHarmfulTemplates:
    @pytest.mark.parametrize(("source", "limits", "message"), HARMFUL)
    def test_one_clear_line_and_no_harm(
        self, source: str, limits: TemplateLimits, message: str
    ) -> None:
        this = psutil.Process()
        children = set(this.children())
        before = this.memory_info().rss
        # Behind a condition: what constant folding would do at compile time is tested below.
        guarded = f"{{% if messages[0].content == 'attack' %}}{source}{{% else %}}fine{{% endif %}}"
        if "extends" in source:
            guarded = source
        attack = (Message("user", "attack"),)
        with ChatTemplate(guarded, name="evil.gguf", limits=limits) as template:
            for _ in range(2):
                with pytest.raises(EngineError) as caught:
                    template.render(attack)
                line = str(caught.value)
                assert line.startswith("the chat template of evil.gguf ")
                assert message in line
                assert "\n" not in line
                assert len(line) < 500
            if guarded != source:
                assert template.render(USER) == "fine"
        assert this.memory_info().rss - before < 32 << 20
        assert set(this.children()) == children

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("{% if %}", "failed: syntax error"),
            ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "recursion"),
            ("{% if 1 %}" * 5000 + "{% endif %}" * 5000, "recursion"),
            ("{{ 'x' }}" * 200_000, "longer than 1048576 bytes"),
            ("{% unknown_tag %}", "unknown statement"),
        ],
    )
    def test_what_cannot_be_compiled_is_a_bad_model_file(self, source: str, message: str) -> None:
        children = set(psutil.Process().children())
        with pytest.raises(ModelFileError, match=message) as caught:
            ChatTemplate(source, name="evil.gguf")
        assert "evil.gguf" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert set(psutil.Process().children()) == children

    def test_a_probe_that_hits_a_limit_says_that_the_model_cannot_be_used(self) -> None:
        with (
            ChatTemplate(NESTED_LOOPS, limits=QUICK) as template,
            pytest.raises(ModelFileError, match="ran out of its instruction limit"),
        ):
            _ = template.supports_tools

    def test_one_rendering_leaves_nothing_for_the_next(self) -> None:
        source = (
            "{{ messages | length }}{% if messages.append %}{{ messages.append(1) }}{% endif %}"
        )
        with ChatTemplate(source) as template:
            first, second = template.render(USER), template.render(USER)
        assert first == second


class TestProcess:
    @pytest.fixture
    def template(self) -> Iterator[ChatTemplate]:
        self.others = set(psutil.Process().children())
        with ChatTemplate(CHATML, now=NOW) as template:
            yield template

    def child(self) -> psutil.Process:
        """The process of the test's template: the one that was not there before."""
        [child] = set(psutil.Process().children()) - self.others
        return child

    def test_a_child_that_died_is_replaced(self, template: ChatTemplate) -> None:
        text = template.render(USER)
        child = self.child()
        child.terminate()
        child.wait(10)
        with pytest.raises(EngineError, match="crashed its renderer"):
            template.render(USER)
        assert template.render(USER) == text
        assert self.child().pid != child.pid

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc")
    def test_the_child_has_nothing_of_ours(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("SECRET_TOKEN", "x")
        with (tmp_path / "open").open("w") as file:
            os.set_inheritable(file.fileno(), True)
            others = set(psutil.Process().children())
            with ChatTemplate(CHATML):
                [child] = set(psutil.Process().children()) - others
                assert "SECRET_TOKEN" not in child.environ()
                assert len(list(Path(f"/proc/{child.pid}/fd").iterdir())) == 3
                limits = Path(f"/proc/{child.pid}/limits").read_text(encoding="utf-8")
                assert limits.split("Max open files")[1].split()[0] == "3"

    @pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
    def test_the_child_ends_with_its_parent(self) -> None:
        script = (
            "import psutil, sys\n"
            "from edge_runner.devices.chat_template import CHATML, ChatTemplate\n"
            "template = ChatTemplate(CHATML)\n"
            "print(psutil.Process().children()[0].pid, flush=True)\n"
            "sys.stdin.read()\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as parent:
            assert parent.stdout is not None
            child = psutil.Process(int(parent.stdout.readline()))
            parent.kill()
            parent.wait()
            assert child.wait(timeout=30) is None or not child.is_running()

    @pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
    def test_the_child_leaves_an_interrupt_to_its_parent(self, template: ChatTemplate) -> None:
        child = self.child()
        child.send_signal(signal.SIGINT)
        assert template.render(USER)
        assert self.child().pid == child.pid

    def test_a_large_conversation_passes_the_pipes(self, template: ChatTemplate) -> None:
        content = "word " * 1_000_000
        assert content in template.render((Message("user", content),))

    def test_threads_may_share_a_template(self, template: ChatTemplate) -> None:
        texts: dict[int, str] = {}

        def render(number: int) -> None:
            for _ in range(20):
                texts[number] = template.render((Message("user", str(number)),))

        threads = [threading.Thread(target=render, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(f"user\n{number}<" in text for number, text in texts.items())
        assert len(texts) == 4

    def test_use_after_close_is_a_clear_error(self) -> None:
        template = ChatTemplate(CHATML)
        template.close()
        template.close()
        with pytest.raises(EngineClosedError, match="after close"):
            template.render(USER)

    def test_the_date_stays_when_the_child_is_replaced(self) -> None:
        source = "{% if x %}" + NESTED_LOOPS + "{% endif %}{{ strftime_now('%Y-%m-%d %H:%M') }}"
        with ChatTemplate(source, now=NOW, limits=PATIENT) as template:
            with pytest.raises(EngineError, match="time limit"):
                template.render(USER, variables={"x": True})
            assert template.render(USER) == "2026-03-09 12:30"


def test_importing_loads_no_template_engine() -> None:
    code = "import sys, edge_runner.devices.chat_template; print('minijinja' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_variables_that_are_no_data_are_a_mistake_of_the_caller() -> None:
    variables: Mapping[str, Any] = {"f": object()}
    with ChatTemplate(CHATML) as template, pytest.raises(TypeError, match="chat template"):
        template.render(USER, variables=variables)
