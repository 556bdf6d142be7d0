"""URI templates: their syntax, and which URIs match."""

from __future__ import annotations

import time
from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from django_mcp.protocol.uri_template import MAX_URI_CHARS, UriTemplate, UriTemplateError


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("order://{pk}", "order://42", {"pk": "42"}),
        ("order://{pk}", "order://a%20b", {"pk": "a b"}),
        ("order://{pk}", "order://Gr%C3%BC%C3%9Fe", {"pk": "Grüße"}),
        ("order://{pk}", "order://Grüße", {"pk": "Grüße"}),
        ("user://{email}", "user://jane@example.com", {"email": "jane@example.com"}),
        ("user://{email}", "user://jane%40example.com", {"email": "jane@example.com"}),
        ("order://{pk}/items/{n}", "order://1/items/2", {"pk": "1", "n": "2"}),
        ("{scheme}://x", "a://x", {"scheme": "a"}),
        ("x://{a}-{b}", "x://1-2-3", {"a": "1-2", "b": "3"}),
        ("x://{name}.{ext}", "x://a.tar.gz", {"name": "a.tar", "ext": "gz"}),
        ("x://{name}.txt", "x://a.txt.txt", {"name": "a.txt"}),
        ("x:/{/a}/c", "x://1/c", {"a": "1"}),
        ("x:/{/a}{/b}", "x://1/2", {"a": "1", "b": "2"}),
        ("x://{a},{b}", "x://1,2", {"a": "1", "b": "2"}),
        ("x:/{/path*}", "x://a/b/c", {"path": ["a", "b", "c"]}),
        ("x:/{/dir*}{/file}", "x://a/b/c", {"dir": ["a", "b"], "file": "c"}),
        ("x://{+path}", "x://a/b.txt", {"path": "a/b.txt"}),
        ("x://{+path}", "x://a//b", {"path": "a//b"}),
        ("x://{+path}/raw", "x://a/raw/b/raw", {"path": "a/raw/b"}),
        ("x://{+path}/{name}", "x://a/b/c", {"path": "a/b", "name": "c"}),
        ("x://{owner}/{+path}", "x://me/a/b", {"owner": "me", "path": "a/b"}),
        ("x://{+url}", "x://https://a.b/?c=d#e", {"url": "https://a.b/?c=d#e"}),
        ("x://{+path}{?v}", "x://a/b?v=1", {"path": "a/b", "v": "1"}),
        ("x://a{?q,n}", "x://a", {}),
        ("x://a{?q,n}", "x://a?n=1&q=2", {"q": "2", "n": "1"}),
        ("x://a{?q}", "x://a?q=", {"q": ""}),
        ("x://a{?q}", "x://a?q=b/c=d", {"q": "b/c=d"}),
        ("x://a{?q}", "x://a?q=a+b", {"q": "a+b"}),
        ("x://a{?tags*}", "x://a?tags=1&tags=2", {"tags": ["1", "2"]}),
        ("x://a?v={v}&w={w}", "x://a?v=1&w=2", {"v": "1", "w": "2"}),
        ("x://café/{x}", "x://caf%C3%A9/1", {"x": "1"}),
        ("x://café/{x}", "x://café/1", {"x": "1"}),
        ("x://fixed", "x://fixed", {}),
        ("x://{a}", "x://%252e%252e", {"a": "%2e%2e"}),
        ("x://{a}", "x://...", {"a": "..."}),
        ("x://{a}", "x://%F0%9F%9A%80", {"a": "🚀"}),
    ],
)
def test_a_uri_yields_its_variables(template, uri, expected):
    assert UriTemplate(template).match(uri) == expected


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("order://{pk}", "order://"),
        ("order://{pk}", "order://1/2"),
        ("order://{pk}", "order://1?x=2"),
        ("order://{pk}", "order://1#x"),
        ("order://{pk}", "Order://1"),
        ("order://{pk}", "order:/"),
        ("order://{pk}", ""),
        ("order://{pk}", "order://a b"),
        ("order://{pk}/", "order://1"),
        ("order://{pk}", "order://1,2"),
        ("x://{a}-{b}", "x://1-"),
        ("x://aa{b}aa", "x://aaa"),
        ("x:/{/p*}", "x:/"),
        ("x:/{/p*}", "x://a//b"),
        ("x://{+p}", "x://"),
        ("x://a{?q}", "x://a?"),
        ("x://a{?q}", "x://a?q=1&"),
        ("x://a{?q}", "x://a?q=1&q=2"),
        ("x://a{?q}", "x://a?r=1"),
        ("x://a{?q}", "x://a?Q=1"),
        ("x://fixed", "x://fixed/"),
        ("x://fixed", "x://fixe"),
        ("x://{a}/", "x://%/"),
        ("x://{a}", "x://%4"),
        ("x://{a}", "x://%zz"),
        ("x://{a}2{b}", "x://%2F"),
    ],
)
def test_other_uris_do_not_match(template, uri):
    assert UriTemplate(template).match(uri) is None


ABSOLUTE = ["/etc/passwd", "%2Fetc%2Fpasswd"]
CLIMBING = [
    *ABSOLUTE,
    *("..", ".", "%2e%2e", "%2E.", ".%2e", "..%2F", "..%2f..%2fetc%2fpasswd"),
    *("a%2F..", "..%5C", "a%5cb", "..\\", "%00", "a%00.png", "a%0Ab", "%7F", "%C2%85", "\x00"),
    *("%C0%AE%C0%AE", "%E0%80%AF", "%c0%af", "%FF", "%ED%A0%80", "\ud800", "../x"),
    *("a/../b", "C:\\x", "\\\\host\\share"),
]


@pytest.mark.parametrize("payload", CLIMBING)
@pytest.mark.parametrize("template", ["file:///{name}", "file:///{name}.txt", "file:///x{/name}"])
def test_a_single_value_cannot_traverse_directories(template, payload):
    uri = template.replace("{name}", payload).replace("{/name}", "/" + payload)

    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize("payload", [each for each in CLIMBING if each not in ABSOLUTE])
@pytest.mark.parametrize("template", ["file:///{+path}", "file:///x{?path}"])
@pytest.mark.parametrize("around", ["{}", "a%2F{}", "{}%2Fa"])
def test_a_path_cannot_contain_dot_segments(template, payload, around):
    value = around.format(payload)
    uri = template.replace("{+path}", value).replace("{?path}", "?path=" + value)

    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize("payload", CLIMBING)
def test_no_list_item_can_traverse_directories(payload):
    assert UriTemplate("file:///x{/path*}").match(f"file:///x/a/{payload}/b") is None


@pytest.mark.parametrize("payload", ABSOLUTE)
def test_a_path_after_a_slash_is_relative(payload):
    assert UriTemplate("file:///{+path}").match("file:///" + payload) is None
    assert UriTemplate("docs://x/{+path}.md").match(f"docs://x/{payload}.md") is None
    assert UriTemplate("file://{+path}").match("file:///etc/passwd") == {"path": "/etc/passwd"}


OUTSIDE = [
    *(
        "C:",
        "c:/x",
        "C%3A/x",
        "C%3a%2Fx",
        "z:x",
        "~",
        "~/x",
        "~root/x",
        "%7Eroot",
        "/x",
        "//host/share",
        "%2Fx",
    ),
    *("a/.. /b", "a/..%20/b", ".../x", "a/%20..", "x/...%2Fy"),
]


@pytest.mark.parametrize("payload", OUTSIDE)
@pytest.mark.parametrize("template", ["x://{+path}", "x:{+path}", "x:///{+path}", "{+path}.md"])
def test_a_path_is_relative_and_below_its_directory_on_every_platform(template, payload):
    assert UriTemplate(template).match(template.replace("{+path}", payload)) is None


def test_only_a_file_uri_may_contain_an_absolute_path():
    template = UriTemplate("file://{+path}")

    assert template.match("file:///etc/hosts") == {"path": "/etc/hosts"}
    for payload in ("C:/x", "~root/x", "~"):
        assert template.match("file://" + payload) is None


@pytest.mark.parametrize(
    "template", ["file:///{name}", "file:///x/{name}.txt", "file:///x{/name}", "file://{/name*}"]
)
def test_a_file_name_cannot_have_a_drive_or_home_directory(template):
    parsed = UriTemplate(template)

    for payload in ("C:", "c:x", "C%3Ax", "~root", "%7E"):
        uri = template.replace("{name}", payload).replace("{/name}", "/" + payload)
        assert parsed.match(uri.replace("{/name*}", "/" + payload)) is None
    assert UriTemplate("order://{key}").match("order://a:1") == {"key": "a:1"}


@pytest.mark.parametrize(
    "path", ["a~b", "a/~b", "ab:c", "a/c:x", "v1..2/x", "a b/.hidden", "https://a.b/c"]
)
def test_other_paths_match(path):
    assert UriTemplate("x://{+path}").match("x://" + path.replace(" ", "%20")) == {"path": path}


def test_a_double_encoded_value_is_decoded_once():
    assert UriTemplate("file:///{name}").match("file:///..%252fetc") == {"name": "..%2fetc"}


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{a}{b}", "nothing separates 'b'"),
        ("{+a}{b}", "nothing separates 'b'"),
        ("{a}{+b}", r"nothing separates '\+b'"),
        ("{?a}{b}", "whole query, at the end"),
        ("x{?a}#end", "whole query, at the end"),
        ("x?a=1{?b}", "whole query, at the end"),
        ("{a}/{a}", "'a' appears twice"),
        ("{a}{?a}", "'a' appears twice"),
        ("{?a,a}", "'a' appears twice"),
        *((each, "none of") for each in ("{a:3}", "{a,b}", "{a*}", "{#a}", "{.a}", "{;a}", "{&a}")),
        *((each, "none of") for each in ("a{}", "a{x y}", "{=x}", "{x-y}", "{x.y}", "{%41}")),
        *((each, "variable name") for each in ("{+}", "{+a,b}", "{+a*}", "{/a,b}", "{/a:3}")),
        *((each, "variable name") for each in ("{?}", "{?a:3}", "{?a,}", "{?a**}", "{é}", "{/}")),
        *((each, "not allowed in a URI") for each in ("order://{pk", "order://pk}", "a{x{y}}")),
        *((each, "not allowed in a URI") for each in ("a b{x}", "a%zz", "50%", "{x}<", "\\")),
        *((each, "not allowed in a URI") for each in ("a\0", "\ud800")),
    ],
)
def test_an_invalid_template_is_rejected_with_the_reason(template, reason):
    with pytest.raises(UriTemplateError, match=reason):
        UriTemplate(template)


@given(st.text() | st.text("{}+/?,*:%=ax19é "))
def test_any_string_is_a_template_or_an_error(text):
    with suppress(UriTemplateError):
        assert UriTemplate(text).text == text


def test_a_template_lists_its_variables():
    template = UriTemplate("a://{x}{/y*}{?z,w*}")

    assert template.variables == ("x", "y", "z", "w")
    assert template.optional_variables == {"z", "w"}
    assert template.list_variables == {"y", "w"}


SAFE = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\/"), min_size=1
).filter(lambda text: text not in (".", ".."))
PATHS = st.lists(SAFE, min_size=1).map("/".join)
TEXTS = PATHS | st.just("")


@given(SAFE, SAFE, st.lists(SAFE, min_size=1), st.lists(TEXTS, min_size=1))
def test_an_expanded_uri_matches_its_template(one, two, many, texts):
    template = UriTemplate("x://{one}/{two}{/many*}{?text,texts*}")
    values = {"one": one, "two": two, "many": many, "text": texts[0], "texts": texts}

    path = "/".join(quote(each, safe="") for each in (one, two, *many))
    query = "&".join(f"texts={quote(each, safe='')}" for each in texts)
    uri = f"x://{path}?text={quote(texts[0], safe='')}&{query}"
    assume(len(uri) <= MAX_URI_CHARS)

    assert template.match(uri) == values


TEMPLATES = [
    "x:{a}",
    "x:{a}.{b}",
    "x:{+a}",
    "x:{+a}{?b}",
    "x:{a}{?d,e*}",
    "x:{/a*}{/b}",
    "x:{/a*}",
    "{a}:{b}x{c}x",
]


@given(st.sampled_from(TEMPLATES), st.text("abcdefg.x:/;=?&#,%2eF", max_size=40) | st.text())
def test_any_uri_is_handled_and_every_match_is_safe(text, uri):
    template = UriTemplate(text)

    for each in (uri, "x:" + uri):
        found = template.match(each)

        for value in (found or {}).values():
            for item in value if isinstance(value, list) else [value]:
                assert not {".", ".."} & set(item.split("/"))
                assert "\\" not in item
                assert "\0" not in item


@pytest.mark.parametrize("template", [*TEMPLATES, "x:{a}a{b}a{c}a{d}a{e}", "x:{+a}/{+b}/{+c}/{d}"])
@pytest.mark.parametrize("unit", ["a", "/", ".", "%", "%2e", ";b=", "&d=", "a/", ",", "x:", "é"])
def test_a_long_uri_is_matched_quickly(template, unit):
    parsed = UriTemplate(template)
    start = time.process_time()

    parsed.match("x:" + unit * (MAX_URI_CHARS // len(unit)))
    parsed.match("x:" + unit * 1_000_000)

    assert time.process_time() - start < 1


def test_an_overlong_uri_matches_nothing():
    assert UriTemplate("x:{a}").match("x:" + "a" * MAX_URI_CHARS) is None
    assert UriTemplate("x:{a}").match("x:" + "a" * (MAX_URI_CHARS - 2)) is not None
