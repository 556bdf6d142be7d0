"""Accept and Content-Type."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.media import admits_event_stream, admits_json, is_json

JSON_ONLY = (True, False)
STREAM_ONLY = (False, True)
BOTH = (True, True)
NEITHER = (False, False)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, BOTH),
        ("", BOTH),
        (" , ,", BOTH),
        ("*/*", BOTH),
        ("*", BOTH),
        ("application/json, text/event-stream", BOTH),
        ("application/json", JSON_ONLY),
        ("APPLICATION/Json", JSON_ONLY),
        ("application/*", JSON_ONLY),
        ("text/event-stream", STREAM_ONLY),
        ("text/*", STREAM_ONLY),
        ("text/html", NEITHER),
        ("json", NEITHER),
        ("application/jsonp, text/event-streams", NEITHER),
        ("application/json;charset=utf-8", JSON_ONLY),
        ("application/json ; q=0.1 , text/event-stream; q=0.000", JSON_ONLY),
        ("application/json;q=0, */*", STREAM_ONLY),
        ("*/*;q=0, text/event-stream", STREAM_ONLY),
        ("text/*;q=0, text/event-stream", STREAM_ONLY),
        ("*/*;q=0", NEITHER),
        ("*/*;Q=0", NEITHER),
        ("text/html, */*; q=.2", BOTH),
        ("*/*;q=nonsense", BOTH),
        ("*/*;q=", BOTH),
        ('text/html;a="x, application/json;q=0", */*', BOTH),
        (r'text/html;a="\", application/json", text/event-stream', STREAM_ONLY),
        ('text/html;a="application/json', NEITHER),
    ],
)
def test_a_type_is_refused_only_when_accept_provably_excludes_it(accept, expected):
    assert (admits_json(accept), admits_event_stream(accept)) == expected


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        " application/json ",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json; charset=utf8",
        "application/json; profile=x",
        "application/json;",
    ],
)
def test_json_in_utf_8_is_json(content_type):
    assert is_json(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "application/json, application/json",
        "application/jsonp",
        "application/vnd.api+json",
        "application/json; charset=utf-16",
        "application/json; charset=utf-8; charset=latin-1",
        "application/json; charset=",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
    ],
)
def test_anything_else_is_not(content_type):
    assert not is_json(content_type)


@given(st.text(st.characters(max_codepoint=255)) | st.text('*/;,="\\ q0.1textjson'))
def test_any_text_gets_a_verdict(text):
    assert admits_json(text) in (True, False)
    assert is_json(text) in (True, False)


@pytest.mark.parametrize("unit", [",", ";", '"', '",', "*/*;q=0,", "\\", '\\"', "a/b;c=d;"])
def test_a_long_header_is_judged_in_no_time(unit):
    start = time.process_time()

    admits_json(unit * 20_000)
    is_json("application/json;" + unit * 20_000)

    assert time.process_time() - start < 1
