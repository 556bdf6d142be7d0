"""Request headers: holding, encoding, comparing them with the body, Accept and Content-Type."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_mcp.protocol.header_params import HeaderParam
from django_mcp.protocol.headers import (
    Headers,
    InvalidHeader,
    admits_event_stream,
    admits_json,
    check_name,
    check_param_headers,
    decode_value,
    encode_value,
    is_json,
)
from tests.unit.protocol.test_json import json_values

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


# --- holding


def test_names_are_found_in_any_case():
    headers = Headers.from_mapping({"mcp-method": "a", "MCP-NAME": "b"})

    assert (headers.get("mcp-method"), headers.get("mcp-name")) == ("a", "b")
    assert headers.get("mcp-missing") is None
    assert headers.names() == ("mcp-method", "mcp-name")


def test_blanks_around_a_value_are_trimmed():
    assert Headers([(b"mcp-method", b" \t tools/list \t")]).get("mcp-method") == "tools/list"


def test_repeated_lines_are_joined_and_remembered():
    headers = Headers([(b"accept", b"a/b "), (b"x", b"1"), (b"accept", b" c/d")])

    assert headers.get("accept") == "a/b, c/d"
    assert headers.is_repeated("accept")
    assert not headers.is_repeated("x")
    assert not headers.is_repeated("missing")


def test_headers_can_be_built_from_a_mapping_of_strings():
    headers = Headers.from_mapping({"Mcp-Name": "find", "X": "\xe9", "Y": "世"})

    assert headers.get("mcp-name") == "find"
    assert headers.get("x") == "\xe9"
    assert headers.get("y") == "世".encode().decode("latin-1")


def test_repr_of_headers_omits_credentials():
    assert "secret" not in repr(Headers([(b"authorization", b"secret")]))


def test_a_name_that_cannot_be_a_header_is_not_found():
    assert Headers([(b"a", b"1")]).get("世") is None


# --- encoding

TABLE = [
    ("us-west-1", "us-west-1"),
    ("us west 1", "us west 1"),
    ("", ""),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
    ("\ttab", "=?base64?CXRhYg==?="),
    ("a\tb", "=?base64?YQli?="),
    ("\x7f", "=?base64?fw==?="),
]


@pytest.mark.parametrize(("value", "encoded"), TABLE)
def test_a_string_is_plain_where_that_is_safe_and_base64_elsewhere(value, encoded):
    assert encode_value(value) == encoded
    assert decode_value(encoded) == value


@pytest.mark.parametrize(
    ("value", "encoded"), [(42, "42"), (-7, "-7"), (True, "true"), (False, "false"), (0, "0")]
)
def test_numbers_and_booleans_are_plain(value, encoded):
    assert encode_value(value) == encoded


@pytest.mark.parametrize("value", [2**53, -(2**53), 10**400])
def test_a_number_beyond_javascripts_safe_range_is_not_encoded(value):
    with pytest.raises(ValueError, match="2\\^53"):
        encode_value(value)


@given(TEXTS | st.text("=?base64 \t\n"))
@example("=?base64?=")
@example("=?base64??=")
def test_every_string_survives_the_header(text):
    encoded = encode_value(text)

    assert decode_value(encoded) == text
    assert encoded.isascii()
    assert encoded == encoded.strip()
    # The form in which servers pass it on.
    raw = Headers([(b"x", b"  " + encoded.encode() + b"\t")]).get("x")
    assert raw is not None
    assert decode_value(raw) == text


@pytest.mark.parametrize(
    "literal", ["SGVsbG8=", "=?base64?SGVsbG8=", "SGVsbG8=?=", "=?BASE64?SGVsbG8=?=", "=?base64?="]
)
def test_only_both_exact_marks_make_base64(literal):
    assert decode_value(literal) == literal


@pytest.mark.parametrize(
    "payload",
    [
        "SGVsbG8",
        "SGVs!!!bG8=",
        "SGVsbG8==",
        "SGVsbG9=",
        "SGVsbG8=AAAA",
        "SGVs bG8=",
        "=",
        "A",
        "SGVsbG8-",
        "/w==",
        "wK4=",
        "7aCA",
    ],
)
def test_broken_base64_is_rejected(payload):
    """Alphabet, padding, spare bits, and text that is not UTF-8 (overlong, surrogate)."""
    with pytest.raises(InvalidHeader):
        decode_value(f"=?base64?{payload}?=")


@pytest.mark.parametrize("raw", ["a\tb", "a\x01", "\x7f", "caf\xe9", "a\r\nb", "\xa0", "世"])
def test_raw_control_and_non_ascii_characters_are_rejected(raw):
    with pytest.raises(InvalidHeader):
        decode_value(raw)


@given(st.binary())
def test_canonical_base64_of_text_is_all_that_is_decoded(data):
    encoded = f"=?base64?{base64.b64encode(data).decode()}?="
    try:
        expected = data.decode()
    except UnicodeDecodeError:
        with pytest.raises(InvalidHeader):
            decode_value(encoded)
    else:
        assert decode_value(encoded) == expected


# --- Mcp-Name


@pytest.mark.parametrize("value", [b"find", b"  find ", b"=?base64?ZmluZA==?="])
def test_a_name_header_that_matches_the_body_passes(value):
    assert check_name("find", Headers([(b"mcp-name", value)])) is None


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ([], "missing"),
        ([(b"mcp-name", b"FIND")], "differs"),
        ([(b"mcp-name", b"")], "differs"),
        ([(b"mcp-name", b"find"), (b"mcp-name", b"find")], "more than once"),
        ([(b"mcp-name", b"find, find")], "differs"),
        ([(b"mcp-name", b"=?base64?ZmluZA?=")], "broken Base64"),
        ([(b"mcp-name", "fïnd".encode())], "Base64"),
        ([(b"mcp_name", b"find")], "missing"),
    ],
)
def test_a_name_header_that_differs_from_the_body_is_rejected(raw, problem):
    text = check_name("find", Headers(raw))

    assert text is not None
    assert problem in text


# --- Mcp-Param-*

REGION = HeaderParam(path=("region",), header="Mcp-Param-Region")
LIMIT = HeaderParam(path=("page", "limit"), header="Mcp-Param-Limit")
DRY_RUN = HeaderParam(path=("dry_run",), header="Mcp-Param-Dry-Run")


def verdict(arguments, *raw, params=(REGION, LIMIT, DRY_RUN)):
    return check_param_headers(params, arguments, Headers([(n.encode(), v) for n, v in raw]))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("us-west", b"us-west"),
        ("", b""),
        ("Hello", b"=?base64?SGVsbG8=?="),
        ("SGVsbG8=", b"SGVsbG8="),
        ("=?base64?SGVsbG8=", b"=?base64?SGVsbG8="),
        ("日本", encode_value("日本").encode()),
    ],
)
def test_a_string_argument_equals_its_decoded_header(argument, value):
    assert verdict({"region": argument}, ("mcp-param-region", value)) is None


@pytest.mark.parametrize(
    "value", [b"42", b"42.0", b"42.000", b"=?base64?NDI=?="], ids=lambda value: value.decode()
)
@pytest.mark.parametrize("argument", [42, 42.0])
def test_whole_numbers_compare_as_numbers(argument, value):
    assert verdict({"page": {"limit": argument}}, ("mcp-param-limit", value)) is None


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        (42, b"43"),
        (42, b"42.5"),
        (42, b"+42"),
        (42, b"042"),
        (42, b"4.2e1"),
        (42, b"0x2a"),
        (42, b"42."),
        (42, b""),
        (42, "٤٢".encode()),
        (42.5, b"42.5"),
        (2**53, b"9007199254740992"),
        (float("inf"), b"inf"),
        (1, b"true"),
        (True, b"1"),
        (10**400, b"1"),
    ],
)
def test_other_spellings_of_numbers_are_rejected(argument, value):
    assert verdict({"page": {"limit": argument}}, ("mcp-param-limit", value)) is not None


@pytest.mark.parametrize("argument", [2**53 - 1, -(2**53) + 1, 0])
def test_numbers_up_to_the_bounds_pass(argument):
    value = encode_value(argument).encode()

    assert verdict({"page": {"limit": argument}}, ("mcp-param-limit", value)) is None


def test_booleans_are_written_in_lower_case():
    assert verdict({"dry_run": True}, ("mcp-param-dry-run", b"true")) is None
    assert verdict({"dry_run": False}, ("mcp-param-dry-run", b"false")) is None
    assert verdict({"dry_run": True}, ("mcp-param-dry-run", b"True")) is not None


def test_an_argument_without_its_header_is_rejected():
    text = verdict({"region": "us"})

    assert text == "The header Mcp-Param-Region is missing; it repeats the argument /region"


@pytest.mark.parametrize("arguments", [{}, {"region": None}, {"page": None}, {"page": [1]}])
def test_a_missing_argument_requires_no_header(arguments):
    assert verdict(arguments) is None


@pytest.mark.parametrize("arguments", [{}, {"region": None}])
def test_a_header_without_its_argument_is_rejected(arguments):
    assert verdict(arguments, ("mcp-param-region", b"us")) is not None


def test_unknown_parameters_are_ignored():
    assert verdict({}, ("mcp-param-other", b"\xff")) is None


@pytest.mark.parametrize("value", [b"caf\xc3\xa9", b"a\x01b", b"=?base64?SGVs!!!bG8=?="])
def test_a_known_parameter_with_invalid_characters_is_rejected(value):
    text = verdict({"region": value.decode()}, ("mcp-param-region", value))

    assert text is not None


def test_a_repeated_parameter_is_rejected():
    line = ("mcp-param-region", b"us")

    assert "more than once" in str(verdict({"region": "us"}, line, line))


def test_a_mismatch_error_names_the_parameter_but_not_the_value():
    param = HeaderParam(path=("a/b", "c~d"), header="Mcp-Param-X")

    text = verdict({"a/b": {"c~d": "private"}}, ("mcp-param-x", b"secret"), params=[param])

    assert text == "The header Mcp-Param-X differs from the argument /a~1b/c~0d"


@given(json_values, st.binary())
def test_any_arguments_and_headers_are_compared_without_error(value, raw):
    for arguments in ({"region": value}, {"page": {"limit": value}}, {"page": value}):
        verdict(arguments, ("mcp-param-region", raw), ("mcp-param-limit", raw))


@given(TEXTS | st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans())
def test_encoded_headers_always_match(value):
    raw = encode_value(value).encode()

    assert verdict({"region": value}, ("mcp-param-region", raw), params=[REGION]) is None


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
def test_a_media_type_is_rejected_only_if_accept_excludes_it(accept, expected):
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
def test_other_content_types_are_not_json(content_type):
    assert not is_json(content_type)


@given(st.text(st.characters(max_codepoint=255)) | st.text('*/;,="\\ q0.1textjson'))
def test_any_header_value_is_parsed(text):
    assert admits_json(text) in (True, False)
    assert is_json(text) in (True, False)


@pytest.mark.parametrize("unit", [",", ";", '"', '",', "*/*;q=0,", "\\", '\\"', "a/b;c=d;"])
def test_a_long_header_is_parsed_quickly(unit):
    start = time.process_time()

    admits_json(unit * 20_000)
    is_json("application/json;" + unit * 20_000)

    assert time.process_time() - start < 1
