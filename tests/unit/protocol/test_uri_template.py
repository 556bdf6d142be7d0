"""URI templates: parsing and expansion as in RFC 6570."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.uri_template import UriTemplate, UriTemplateError

# The variables of RFC 6570 section 3.2.
VALUES = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_keys": {},
    "undef": None,
}

# Sections 1.2 and 3.2.1 to 3.2.9.
EXPANSIONS = """
{var}  value
{hello}  Hello%20World%21
{half}  50%25
O{empty}X  OX
O{undef}X  OX
{x,y}  1024,768
{x,hello,y}  1024,Hello%20World%21,768
?{x,empty}  ?1024,
?{x,undef}  ?1024
?{undef,y}  ?768
{var:3}  val
{var:30}  value
{list}  red,green,blue
{list*}  red,green,blue
{keys}  semi,%3B,dot,.,comma,%2C
{keys*}  semi=%3B,dot=.,comma=%2C
{count}  one,two,three
{count*}  one,two,three
{/count}  /one,two,three
{/count*}  /one/two/three
{;count}  ;count=one,two,three
{;count*}  ;count=one;count=two;count=three
{?count}  ?count=one,two,three
{?count*}  ?count=one&count=two&count=three
{&count*}  &count=one&count=two&count=three
{+var}  value
{+hello}  Hello%20World!
{+half}  50%25
{base}index  http%3A%2F%2Fexample.com%2Fhome%2Findex
{+base}index  http://example.com/home/index
O{+empty}X  OX
O{+undef}X  OX
{+path}/here  /foo/bar/here
here?ref={+path}  here?ref=/foo/bar
up{+path}{var}/here  up/foo/barvalue/here
{+x,hello,y}  1024,Hello%20World!,768
{+path,x}/here  /foo/bar,1024/here
{+path:6}/here  /foo/b/here
{+list}  red,green,blue
{+list*}  red,green,blue
{+keys}  semi,;,dot,.,comma,,
{+keys*}  semi=;,dot=.,comma=,
{#var}  #value
{#hello}  #Hello%20World!
{#half}  #50%25
foo{#empty}  foo#
foo{#undef}  foo
{#x,hello,y}  #1024,Hello%20World!,768
{#path,x}/here  #/foo/bar,1024/here
{#path:6}/here  #/foo/b/here
{#list}  #red,green,blue
{#list*}  #red,green,blue
{#keys}  #semi,;,dot,.,comma,,
{#keys*}  #semi=;,dot=.,comma=,
{.who}  .fred
{.who,who}  .fred.fred
{.half,who}  .50%25.fred
www{.dom*}  www.example.com
X{.var}  X.value
X{.empty}  X.
X{.undef}  X
X{.var:3}  X.val
X{.list}  X.red,green,blue
X{.list*}  X.red.green.blue
X{.keys}  X.semi,%3B,dot,.,comma,%2C
X{.keys*}  X.semi=%3B.dot=..comma=%2C
X{.empty_keys}  X
X{.empty_keys*}  X
{/who}  /fred
{/who,who}  /fred/fred
{/half,who}  /50%25/fred
{/who,dub}  /fred/me%2Ftoo
{/var}  /value
{/var,empty}  /value/
{/var,undef}  /value
{/var,x}/here  /value/1024/here
{/var:1,var}  /v/value
{/list}  /red,green,blue
{/list*}  /red/green/blue
{/list*,path:4}  /red/green/blue/%2Ffoo
{/keys}  /semi,%3B,dot,.,comma,%2C
{/keys*}  /semi=%3B/dot=./comma=%2C
{;who}  ;who=fred
{;half}  ;half=50%25
{;empty}  ;empty
{;v,empty,who}  ;v=6;empty;who=fred
{;v,bar,who}  ;v=6;who=fred
{;x,y}  ;x=1024;y=768
{;x,y,empty}  ;x=1024;y=768;empty
{;x,y,undef}  ;x=1024;y=768
{;hello:5}  ;hello=Hello
{;list}  ;list=red,green,blue
{;list*}  ;list=red;list=green;list=blue
{;keys}  ;keys=semi,%3B,dot,.,comma,%2C
{;keys*}  ;semi=%3B;dot=.;comma=%2C
{?who}  ?who=fred
{?half}  ?half=50%25
{?x,y}  ?x=1024&y=768
{?x,y,empty}  ?x=1024&y=768&empty=
{?x,y,undef}  ?x=1024&y=768
{?var:3}  ?var=val
{?list}  ?list=red,green,blue
{?list*}  ?list=red&list=green&list=blue
{?keys}  ?keys=semi,%3B,dot,.,comma,%2C
{?keys*}  ?semi=%3B&dot=.&comma=%2C
{&who}  &who=fred
{&half}  &half=50%25
?fixed=yes{&x}  ?fixed=yes&x=1024
{&x,y,empty}  &x=1024&y=768&empty=
{&x,y,undef}  &x=1024&y=768
{&var:3}  &var=val
{&list}  &list=red,green,blue
{&keys}  &keys=semi,%3B,dot,.,comma,%2C
{&keys*}  &semi=%3B&dot=.&comma=%2C
"""


@pytest.mark.parametrize("line", EXPANSIONS.strip().splitlines())
def test_templates_expand_as_in_the_rfc(line):
    template, expected = line.split("  ")

    assert UriTemplate(template).expand(VALUES) == expected


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        ("{x}", {"x": 5}, "5"),
        ("{x}", {"x": True}, "true"),
        ("{x}", {"x": "ü"}, "%C3%BC"),
        ("{+x}", {"x": "a%20b%zz%"}, "a%20b%25zz%25"),
        ("{x}", {"x": "a%20b"}, "a%2520b"),
        ("{?a,b}", {"a": [], "b": [None]}, ""),
        ("{;m*}", {"m": {"a": "", "b": None, "c": 1}}, ";a;c=1"),
        ("{?m*}", {"m": {"a": ""}}, "?a="),
        ("ü/{x}'", {"x": "a"}, "%C3%BC/a'"),
        ("{a.b}{%41}", {"a.b": "1", "%41": "2"}, "12"),
        ("{x}", {}, ""),
        ("", {}, ""),
    ],
)
def test_values_of_other_kinds_expand(template, values, expected):
    assert UriTemplate(template).expand(values) == expected


def test_a_length_is_for_single_values_only():
    with pytest.raises(ValueError, match="must not be a list"):
        UriTemplate("{x:3}").expand({"x": ["a"]})


@pytest.mark.parametrize(
    ("template", "position"),
    [
        ("order://{pk", 8),
        ("order://pk}", 10),
        ("a{}", 2),
        ("a{x,}", 4),
        ("a{,x}", 2),
        ("a{x y}", 2),
        ("a{x{y}}", 2),
        ("{=x}", 1),
        ("{!x}", 1),
        ("{|x}", 1),
        ("{+}", 2),
        ("{x:0}", 3),
        ("{x:10000}", 3),
        ("{x:}", 3),
        ("{x:3*}", 3),
        ("{x*:3}", 1),
        ("{a,b:z}", 5),
        ("{x**}", 1),
        ("{.x.}", 2),
        ("{x..y}", 1),
        ("{é}", 1),
        ("{x-y}", 1),
        ("{%4}", 1),
        ("a b{x}", 1),
        ("a%zz", 1),
        ("50%", 2),
        ("{x}<", 3),
        ("\\", 0),
        ("a\0", 1),
        ("\ud800", 0),
    ],
)
def test_a_fault_is_named_with_its_position(template, position):
    with pytest.raises(UriTemplateError, match=f"at character {position} of") as caught:
        UriTemplate(template)
    assert caught.value.position == position


@given(st.text() | st.text("{}+#./;?&,*:%=ax19é "))
def test_any_text_is_a_template_or_a_fault(text):
    with suppress(UriTemplateError):
        assert UriTemplate(text).expand({}).isascii()


def test_a_template_tells_its_variables():
    template = UriTemplate("a://{x}{/y*}{?z,w*}{;v}")

    assert template.variables == ("x", "y", "z", "w", "v")
    assert template.optional_variables == {"z", "w", "v"}
    assert template.list_variables == {"y", "w"}


def test_templates_with_the_same_text_are_equal():
    assert UriTemplate("a{x}") == UriTemplate("a{x}") != UriTemplate("a{y}")
    assert len({UriTemplate("a{x}"), UriTemplate("a{x}")}) == 1
    assert str(UriTemplate("a{x}")) == "a{x}"
    assert UriTemplate("a{x}") != "a{x}"
