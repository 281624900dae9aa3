"""Writes template_goldens.json: our own templates and what transformers renders of them; no test needs it.

    python make_template_goldens.py

The snippets of tests/text/snippets.py, one rule each, and whole templates of common shapes that were
written for this, over conversations. `text` is null where the reference raises an error.
"""

# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests/text"))

import test_chat_templates as cases  # noqa: E402

# Marks around each turn, a default system text, and an open turn at the end.
TURNS = """
{%- if messages[0].role != 'system' %}{{- '<|begin|>system\\nBe kind.<|end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|begin|>' + message.role + '\\n' + (message.content or '') | trim + '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '\\n<|begin|>assistant\\n' }}{% endif %}
"""
# The system text goes into the first question; roles must alternate.
INSTRUCTIONS = """
{%- set ns = namespace(system='', turn=0) %}{{ bos_token }}
{%- for m in messages %}
  {%- if m['role'] == 'system' %}{% set ns.system = m['content'] %}{% continue %}{% endif %}
  {%- if (m['role'] == 'user') != (ns.turn % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
  {%- if m['role'] == 'user' %}
    {{- '[Q] ' ~ ('<<' ~ ns.system ~ '>> ' if ns.turn == 0 and ns.system) ~ m['content'] ~ ' [/Q]' }}
  {%- else %}{{ ' ' + m['content'].strip() + eos_token }}{% endif %}
  {%- set ns.turn = ns.turn + 1 %}
{%- endfor %}
"""
# Tools as JSON, calls and results; thoughts of earlier answers are dropped.
TOOLS = """
{%- macro call(c) -%}
{"name": "{{ c.name }}", "arguments": {{ c.arguments if c.arguments is string else c.arguments | tojson }}}
{%- endmacro %}
{%- set last = namespace(question=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set last.question = loop.index0 %}{% endif %}{% endfor %}
{%- if tools %}# Tools\n{% for t in tools %}{{ t.function | tojson(indent=2) }}\n{% endfor %}{% endif %}
{%- for m in messages %}
{%- set text = m.content if m.content is string else m.content | selectattr('type', 'eq', 'text')
    | map(attribute='text') | join('|') if m.content is iterable else '' %}
{%- if m.role == 'assistant' and '</think>' in text and loop.index0 < last.question %}
{%- set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}
<{{ m.role }}{% if m.name is defined %} {{ m.name }}{% endif %}>{{ text }}
{%- for c in m.tool_calls or [] %}
{{ call(c.function) }}{{ ',' if not loop.last }}{% endfor %}
{%- if loop.last and not add_generation_prompt %}{{ eos_token }}{% endif %}
{%- endfor %}
"""


def main():
    rows = [cases.make(snippet, [], variables=cases.VARIABLES) for snippet in cases.SNIPPETS]
    for template in (TURNS, INSTRUCTIONS, TOOLS):
        for messages in cases.CONVERSATIONS.values():
            rows.append(cases.make(template, messages, None, True))
            rows.append(cases.make(template, messages, cases.TOOLS, False))
    # Each value stands once; a row has its number.
    tables = {"templates": [], "messages": [], "tools": [], "variables": []}

    def number(table: str, value) -> int:
        if value not in tables[table]:
            tables[table].append(value)
        return tables[table].index(value)

    goldens = [
        {
            "template": number("templates", row["template"]),
            "messages": number("messages", row["messages"]),
            "tools": number("tools", row["tools"]),
            "variables": number("variables", row["variables"]),
            "add_generation_prompt": row["add_generation_prompt"],
            "text": cases.expected(row),
        }
        for row in rows
    ]
    content = {"made_by": "make_template_goldens.py", "special_tokens": cases.TOKENS, **tables, "cases": goldens}
    (HERE / "template_goldens.json").write_text(
        json.dumps(content, ensure_ascii=False, indent=0) + "\n", encoding="utf-8"
    )
    print(len(goldens), "cases,", sum(row["text"] is None for row in goldens), "of them errors")


if __name__ == "__main__":
    main()
