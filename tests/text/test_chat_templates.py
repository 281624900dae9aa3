"""Renders chat templates here and with transformers: real ones from the package trl, and snippets of ours.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import functools
import itertools
import unittest

from probe import folder_of, need, render
from snippets import SNIPPETS, VARIABLES

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'The "weather" <now> & later, 天气',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "days": {"type": "integer", "enum": [1, 2, 3]},
                    "unit": {"type": ["string", "null"], "default": "C"},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": "",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]


def call(name: str, arguments) -> dict:
    return {
        "id": "call00001",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def say(role: str, content, **fields) -> dict:
    return {"role": role, "content": content, **fields}


CONVERSATIONS = {
    "one turn": [say("user", "Hello, world!")],
    "system": [
        say("system", "Be terse.\nVery."),
        say("user", "Hi  "),
        say("assistant", "  Hey\n"),
        say("user", "<b>🙂 中文"),
    ],
    "turns": [
        say("user", "a"),
        say("assistant", "b"),
        say("user", "c"),
        say("assistant", "<think>\nx\n</think>\n\nd"),
        say("user", "e"),
    ],
    "tool": [
        say("system", "s"),
        say("user", "Weather?"),
        say("assistant", "", tool_calls=[call("get_weather", {"city": "Paris", "days": 2})]),
        say("tool", '{"t": 20.5}', name="get_weather", tool_call_id="call00001"),
        say("assistant", "20.5"),
        say("user", "thanks"),
    ],
    "tool arguments as text": [
        say("user", "q"),
        say("assistant", None, tool_calls=[call("f", '{"a": [1, 2.0, null, true]}')]),
        say("tool", "ok"),
    ],
    "ends with an answer": [say("user", "x"), say("assistant", "y")],
    "no messages": [],
    "parts": [say("user", [{"type": "text", "text": "look"}, {"type": "text", "text": " here"}])],
    "image": [say("user", [{"type": "image"}, {"type": "text", "text": "what?"}])],
    "reasoning": [
        say("user", "q"),
        say("assistant", "a", reasoning_content="because"),
        say("user", "r"),
    ],
    "thinking": [say("user", "q"), say("assistant", "a", thinking="because"), say("user", "r")],
}
MORE = [{}, {"enable_thinking": False}, {"reasoning_effort": "high", "date_string": "01 Jan 2025"}]


@functools.cache
def reference():
    need("transformers")
    from transformers.utils.chat_template_utils import render_jinja_template

    return render_jinja_template


def expected(case: dict) -> str | None:
    """The text by transformers; None when the template refuses the messages or fails."""
    try:
        texts, _ = reference()(
            [case["messages"]],
            tools=case["tools"],
            chat_template=case["template"],
            add_generation_prompt=case["add_generation_prompt"],
            **case["special_tokens"],
            **case["variables"],
        )
        return texts[0]
    except Exception:  # noqa: BLE001: what a template may raise is not listed anywhere
        return None


def make(template: str, messages: list, tools=None, generation: bool = False, variables=None) -> dict:
    return {
        "template": template,
        "messages": messages,
        "tools": tools,
        "add_generation_prompt": generation,
        "variables": variables or {},
        "special_tokens": TOKENS,
    }


class ChatTemplatesTest(unittest.TestCase):
    def compare(self, named: list[tuple[str, dict]]) -> int:
        """Number of cases that have a text; every difference fails."""
        count = 0
        for (name, case), found in zip(named, render([case for _, case in named]), strict=True):
            wanted = expected(case)
            with self.subTest(name):
                self.assertEqual(found.get("text"), wanted, found.get("error"))
            count += wanted is not None
        return count

    def test_real_templates_render_as_transformers_does(self):
        paths = sorted((folder_of("trl") / "chat_templates").glob("*.jinja"))
        self.assertGreater(len(paths), 50)
        named = []
        for path in paths:
            source = path.read_text(encoding="utf-8")
            grid = itertools.product(CONVERSATIONS.items(), (None, TOOLS), (False, True), MORE)
            for (title, messages), tools, generation, more in grid:
                named.append((f"{path.name}, {title}", make(source, messages, tools, generation, more)))
        self.assertGreater(self.compare(named), 5000)

    def test_snippets_render_as_transformers_does(self):
        named = [(snippet, make(snippet, [], variables=VARIABLES)) for snippet in SNIPPETS]
        self.assertGreater(self.compare(named), 200)


if __name__ == "__main__":
    unittest.main()
