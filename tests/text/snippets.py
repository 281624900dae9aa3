"""Small templates, one rule each, for test_chat_templates.py; some of them must fail.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

# ruff: noqa: E501 (a template is easier to read on one line)
VARIABLES = {
    "n": 7,
    "x": 2.5,
    "s": "Hello  World",
    "u": "naïve 中文 🙂",
    "t": True,
    "z": None,
    "l": [3, 1, 2],
    "w": ["b", "A", "c", "B"],
    "d": {"b": 2, "a": 1, "items": "field"},
    "people": [
        {"name": "Ann", "age": 30, "tags": {"a": 1}},
        {"name": "bob", "age": 25, "tags": {}},
        {"name": "Cy", "age": 30},
    ],
}

# Between { and }: an expression whose value is shown.
EXPRESSIONS = r"""
1 + 2 * 3 - 4 / 8
7 // 2 ~ ' ' ~ -7 // 2 ~ ' ' ~ 7 % 3 ~ ' ' ~ -7 % 3
2 ** 3 ** 2
2 ** -1
7.5 // 2
7.5 % 2
-7.5 % 2
1 / 3
1e3
1e16
1e-5
0.1 + 0.2
1_000
100 * 1.0
-n + 3
-n|abs
+n
n / 0
9223372036854775807
'a' ~ 1 ~ none ~ true ~ 1.0
'a' * 3
3 * 'ab'
[1] * 2
'a' + 1
'%s is %d and %.2f%%' % ('x', 3, 2.5)
'%s' % s
"a\tb\n\x41\u00e9\\ \q"
'it''s'
[1, 'a', none, true, 1.5, {'k': "it's"}]
(1, 2)
(1,)
()
{'a': 1, 'b': [1, 2]}
d.a
d['a']
d['items']
d.missing
d.missing.deeper
d.get('a')
d.get('q')
d.get('q', 5)
d.keys() | list
d.values() | list
d.items() | list
missing
missing ~ 'x'
missing is defined
missing == none
missing or 'other'
missing + 1
z
z is none
z == none
z or 'other'
l[0]
l[-1]
l[5]
l[1:]
l[:-1]
l[::-1]
l[::2]
l[-2:]
l[5:]
s[0]
s[-5:]
s[::-1]
u[6]
u[6:8]
u | length
l | length
d | length
missing | length
n | length
s | upper
s | lower
'hELLO wORLD' | title
'hELLO' | capitalize
'  x ' | trim
'xxaxx' | trim('x')
'a b a' | replace('a', 'c')
'a b a' | replace('a', 'c', 1)
'abc' | replace('', '-')
l | join(', ')
people | join(', ', attribute='name')
l | sort
w | sort
w | sort(case_sensitive=true)
l | sort(reverse=true)
people | sort(attribute='age') | map(attribute='name') | list
l | first
l | last
[] | first
s | first
l | reverse | list
'abc' | reverse
l | sum
people | sum(attribute='age')
l | max
l | min
w | max
w | unique | list
people | map(attribute='name') | join('+')
people | map(attribute='tags.a', default=0) | list
w | map('upper') | list
l | map('string') | join
people | selectattr('age', 'equalto', 30) | map(attribute='name') | list
people | rejectattr('tags') | map(attribute='name') | list
people | selectattr('tags', 'defined') | list | length
l | select('odd') | list
l | reject('>', 1) | list
l | select('in', [1, 2]) | list
[1, none, 0, 'a'] | select | list
d | dictsort
d | dictsort(by='value')
d | items | list
missing | items | list
l | batch(2) | list
l | batch(2, 0) | list
'a,b,,c'.split(',')
' a  b c '.split()
'a b c d'.split(' ', 1)
'a b c'.rsplit(' ', 1)
' a b  c '.rsplit(none, 1)
' a b  c '.split(none, 1)
'a\nb\r\nc'.splitlines()
'abc'.startswith('ab')
'abc'.startswith(('x', 'a'))
'abc'.endswith('bc')
'abcabc'.find('c')
'abcabc'.rfind('c')
'中文中'.find('文')
'abc'.find('x')
'abcabc'.count('bc')
' x '.strip() ~ '|' ~ ' x '.lstrip() ~ '|' ~ ' x '.rstrip() ~ '|'
'xyx'.strip('x')
'ABC'.lower() ~ 'abc'.upper() ~ 'abc def'.title() ~ 'aBC'.capitalize()
'-'.join(['a', 'b'])
'abcd'.removeprefix('ab').removesuffix('d')
'12'.isdigit() ~ 'a1'.isalnum() ~ 'ab'.isalpha() ~ ' '.isspace()
'a-b'.replace('-', '+')
[1, 2, 1].count(1)
[1, 2].index(2)
d | tojson
people | tojson
people | tojson(indent=2)
[] | tojson(indent=2)
{} | tojson
'é"\\/\n\t<>&' | tojson
[1, 1.0, 1e20, 0.0001, -0.0, true, none] | tojson
missing | tojson
'<a href="x">&' | e
'<a>' | safe
'a\nb\n\nc' | indent
'a\nb' | indent(2, true)
'a\n\nb' | indent(2, false, true)
'12' | int
'12.7' | int
'x' | int
'x' | int(5)
12.9 | int
'1.5' | float
'x' | float
2.5 | round
3.5 | round
2.567 | round(2)
2.1 | round(0, 'ceil')
2.9 | round(method='floor')
-3 | abs
12 | string
missing | default('d')
'' | default('d')
'' | default('d', true)
z | d('x')
'%s-%s' | format('a', 1)
1 == 1.0
1 == true
'a' < 'b'
1 < 2 < 3
1 < 3 < 2
1 < 'a'
[1, 2] < [1, 3]
2 in l
5 not in l
'ell' in s
'a' in d
'x' in missing
not true
not missing and true
true and 'yes' or 'no'
'a' if t else 'b'
'a' if not t
1 if t else 2 if z else 3
n is odd
n is even
n is divisibleby 7
n is divisibleby(2)
n is number and n is integer and n is not float
x is float
s is string
d is mapping
l is mapping
l is iterable and l is sequence
t is boolean and t is true
t is false
n is eq 7
n is ne 7
n is gt 3
n is le(7)
n is in [7, 8]
none is none
'abc' is lower
'ABC' is upper
range is callable
n is sameas 7
range(5) | list
range(2, 8, 3) | list
range(5, 0, -2) | list
dict(a=1, b=2)
bos_token ~ eos_token
namespace(a=1).a
raise_exception('no')
unknown_function(1)
s | no_such_filter
n is no_such_test
l.append(4)
d.update({'x': 1})
s.__class__
(1, 2) == [1, 2]
-2 ** 2
1 + 2 ~ 3 * 4
[1, 2] + [3]
'a' 'b'
l.0
people[0].name
people[0]['name'][0]
(people | first).age
people[-1].tags.a
"%05.1f|%x|%+d" | format(3.14159, 255, 5)
'{}'
"{{ x }}"
'a' ~ ('b' if t)
[t, z, n] | string
s | count
"tab\there" | string
'\'' ~ "\"" ~ '\\n'
["\n", "'", '"', "'\"", "\\"]
"""

STATEMENTS = [
    "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "a\n   {% if true %}   \nb\n   {%- endif -%}  \n c",
    "  {% if true %} x {% endif %}  \n y",
    "{%+ if true +%}\n x {% endif %}",
    "  {%+ if true %}y{% endif %}",
    "x\n  {# comment #}\ny {#- c -#} z",
    "x {{- 1 -}} y {{ 2 }}\n z",
    "{{ 1 }}\n{{ 2 }}\n",
    "a\n\n",
    "a\r\nb\rc\n",
    "{% raw %}{{ x }}{% endraw %}|{%- raw -%} {% if %} {%- endraw -%} |",
    "a {%- raw %} b {% endraw %}\nc",
    "{% for i in l %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.length }};{% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ loop.nextitem }};{% endfor %}",
    "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for c in u %}[{{ c }}]{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for i in missing %}x{% else %}none{% endfor %}",
    "{% for i in n %}x{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.length }}{% endfor %}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% for i in [1, [2, [3]]] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}@{{ loop.depth }}{% endif %}{% endfor %}",
    "{% set a = 1 %}{% for i in l %}{% set a = a + i %}{{ a }};{% endfor %}{{ a }}",
    "{% set ns = namespace(a=0, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace() %}{% set ns.q = 1 %}{{ ns.q }}{{ ns.missing }}",
    "{% set d.x = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set a %}x{{ n }}y{% endset %}[{{ a }}]",
    "{% set a | upper | trim %} x {% endset %}[{{ a }}]",
    "{% if n == 7 %}{% set a = 1 %}{% endif %}{{ a }}",
    "{% if false %}a{% elif n == 7 %}b{% else %}c{% endif %}",
    "{% if missing %}a{% elif z %}b{% else %}c{% endif %}",
    "{% macro m(a, b=2) %}[{{ a }},{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{{ n }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}",
    "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(4) }}",
    "{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}body{{ n }}{% endcall %}",
    "{% macro m() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}{% call(v) m() %}<{{ v }}>{% endcall %}",
    "{%- macro m(x) -%}\n  {{ x }}\n{%- endmacro -%}\n{{ m(1) }}\n{{ m(2) }}",
    "{% set q = 5 %}{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% set q = 6 %}{{ m() }}",
    "{% filter upper %}abc{{ s }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}aca{% endfilter %}",
    "{% generation %}x{{ n }}{% endgeneration %}y",
    "{% for m in people %}{% if loop.first %}F{% endif %}{{ m['name'] }}{% endfor %}",
    "{% for m in people %}{{ m.tags.a if m.tags is defined and m.tags.a is defined else '-' }}{% endfor %}",
    "{{ messages }}{{ add_generation_prompt }}{{ tools }}{{ tools is none }}",
    "{% if tools is defined and tools %}t{% else %}-{% endif %}",
    "{{ 'a' }}{{ \"b\" }}{{ '{{' }}{{ '%}' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ l[{'a': 1}.a] }}",
    "{% set x = [] %}{% set x = x + [1] %}{% set x = x + [2] %}{{ x }}",
    "{% set x = {'a': 1} %}{{ x.a }}{{ dict(x, b=2) }}",
    "{% for i in range(3) %}{{ i }}{{ '\\n' }}{% endfor %}",
    "{%- for i in l %}\n- {{ i }}\n{%- endfor %}\nend",
    "{%- if t -%}\n\n  a\n\n{%- endif -%}\n\n b",
    "{{ '\n' }}x{{- '\n' -}}y",
    "{% if n > 5 and (s == 'q' or not z) %}yes{% endif %}",
    "{% unknown %}",
    "{% if x %}",
    "{{ x",
    "{{ }}",
    "{% endif %}",
    "{% for %}{% endfor %}",
    "{{ 1 + }}",
    "{{ 'a }}",
    "{% break %}",
    "{# open",
    "{{ a.b.c }}",
    "{{ z.b }}",
    "{{ n.b }}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% extends 'x' %}",
]

SNIPPETS = ["{{ " + line + " }}" for line in EXPRESSIONS.strip().split("\n")] + STATEMENTS
