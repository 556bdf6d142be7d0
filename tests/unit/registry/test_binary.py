"""Bytes in arguments and results: Base64 in both directions."""

import base64
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typing_extensions
from pydantic import AfterValidator, Base64Bytes, BaseModel, BeforeValidator, ConfigDict, Field

from django_mcp.protocol.json import decode, encode
from django_mcp.registry.forms import convert
from django_mcp.registry.problems import ArgumentErrors
from tests.support.registry import Ctx, Site, bind

DATA = b"\x89PNG\xff\xfb\xbe"
TEXT = base64.b64encode(DATA).decode()
URL_SAFE = base64.urlsafe_b64encode(DATA).decode()


class Row(typing_extensions.TypedDict):
    data: bytes


@dataclass
class Picture:
    name: str
    data: bytes
    thumb: bytes | None = None


class Upload(BaseModel):
    data: bytes
    parts: list[bytes] = []


class Hex(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex", ser_json_bytes="hex")
    data: bytes


class Plain(BaseModel):
    model_config = ConfigDict(val_json_bytes="utf8", ser_json_bytes="utf8")
    data: bytes


def register(annotation: Any) -> tuple[Site, Any]:
    """Return a server with a tool that returns its argument, and its entry."""
    site = Site()

    def echo(value: Any) -> Any:
        """Return what is given."""
        return value

    echo.__annotations__.update({"value": annotation, "return": list[annotation]})
    site.tool(echo)
    return site, site.registry.tools["echo"]


def read(annotation: Any, value: Any) -> Any:
    entry = register(annotation)[1]
    assert entry.input_validator.problems({"value": value}) == []
    return bind(entry.handler, {"value": value}, Ctx())["value"]


@pytest.mark.parametrize(
    ("annotation", "sent", "got"),
    [
        (bytes, TEXT, DATA),
        (bytes, "", b""),
        (bytes, base64.urlsafe_b64encode(DATA).decode(), DATA),
        (bytes | None, TEXT, DATA),
        (bytes | None, None, None),
        (list[bytes], [TEXT, TEXT], [DATA, DATA]),
        (dict[str, bytes], {"a": TEXT}, {"a": DATA}),
        (Annotated[bytes, Field(max_length=7)], TEXT, DATA),
        (Annotated[bytes, AfterValidator(lambda data: data[:4])], TEXT, b"\x89PNG"),
        (Annotated[bytes, BeforeValidator(base64.b64decode)], TEXT, DATA),
        (Base64Bytes, TEXT, DATA),
        (Row, {"data": TEXT}, {"data": DATA}),
        (Picture, {"name": "a", "data": TEXT, "thumb": TEXT}, Picture("a", DATA, DATA)),
        (list[Upload], [{"data": TEXT, "parts": [TEXT]}], [Upload(data=DATA, parts=[DATA])]),
        (Hex, {"data": DATA.hex()}, Hex(data=DATA)),
        (Plain, {"data": "grün"}, Plain(data="grün".encode())),
    ],
)
def test_bytes_are_read_from_base64_unless_their_author_chose_another_form(
    annotation: Any, sent: Any, got: Any
):
    assert read(annotation, sent) == got


@pytest.mark.parametrize(
    ("annotation", "wrong", "pointer"),
    [
        (bytes, "no Base64!", "/value"),
        (bytes, "abc", "/value"),
        (bytes, "YQ==YQ==", "/value"),
        (bytes, "grün", "/value"),
        (list[bytes], [TEXT, "?"], "/value/1"),
        (Picture, {"name": "a", "data": "?"}, "/value/data"),
        (Upload, {"data": TEXT, "parts": ["?"]}, "/value/parts/0"),
    ],
)
def test_a_text_that_is_no_base64_is_an_argument_error(annotation: Any, wrong: Any, pointer: str):
    with pytest.raises(ArgumentErrors) as raised:
        read(annotation, wrong)

    (problem,) = raised.value.problems
    assert (problem.pointer, problem.message) == (pointer, "must be bytes in Base64")


def test_the_limits_of_bytes_are_those_of_the_bytes():
    annotation = Annotated[bytes, Field(min_length=2, max_length=7)]
    schema = register(annotation)[1].input_schema["properties"]["value"]

    assert schema == {
        "type": "string", "contentEncoding": "base64", "minLength": 4, "maxLength": 12,
    }  # fmt: skip
    for wrong in (b"a", b"12345678"):
        with pytest.raises(ArgumentErrors, match="/value: "):
            read(annotation, base64.b64encode(wrong).decode())


def test_the_schemas_say_base64_in_both_directions():
    entry = register(Upload)[1]
    sent, returned = entry.input_schema["properties"]["value"], entry.output_schema
    base64_text = {"type": "string", "contentEncoding": "base64"}

    assert sent["properties"]["data"] == base64_text
    assert sent["properties"]["parts"]["items"] == base64_text
    assert str(returned).count("'contentEncoding': 'base64'") == 2
    assert "binary" not in str(entry.input_schema)


def test_types_of_encoded_bytes_keep_their_schema():
    _, entry = register(Base64Bytes)

    assert "contentEncoding" not in entry.form_schema["properties"]["value"]


@dataclass
class Loose:
    data: Any


class LooseHex(BaseModel):
    model_config = ConfigDict(ser_json_bytes="hex")
    data: Any


@pytest.mark.parametrize(
    ("annotation", "value", "written"),
    [
        (Row, {"data": DATA}, {"data": TEXT}),
        (Picture, Picture("a", DATA), {"name": "a", "data": TEXT, "thumb": None}),
        (Upload, Upload(data=DATA, parts=[b"a"]), {"data": TEXT, "parts": ["YQ=="]}),
        (Hex, Hex(data=DATA), {"data": DATA.hex()}),
        (Plain, Plain(data=b"a"), {"data": "a"}),
        # Of no declared type.
        (dict, {"data": DATA}, {"data": URL_SAFE}),
        (dict[str, Any], {"data": [DATA]}, {"data": [URL_SAFE]}),
        (dict[str, object], {"data": bytearray(DATA)}, {"data": URL_SAFE}),
        (Loose, Loose(DATA), {"data": URL_SAFE}),
        (LooseHex, LooseHex(data=DATA), {"data": DATA.hex()}),
        (Any, {"data": DATA}, {"data": URL_SAFE}),
    ],
)
def test_bytes_in_results_are_written_in_base64(annotation: Any, value: Any, written: Any):
    site = Site()

    def tool() -> Any:
        return value

    tool.__annotations__["return"] = annotation
    site.tool(tool)

    assert site.call("tool").structured == written


def test_bytes_and_texts_of_one_union_keep_their_forms_in_a_result():
    site = Site()

    @site.tool
    def tool() -> list[dict[str, bytes | int]]:
        return [{"a": DATA, "b": 1}]

    (row,) = decode(site.call("tool").content[0].text.encode())
    assert row == {"a": TEXT, "b": 1}


def test_what_a_tool_returns_another_one_reads():
    site = Site()

    @site.tool
    def untyped():
        """Return bytes in a dict."""
        return {"data": DATA}

    assert read(bytes, site.call("untyped").structured["data"]) == DATA


def test_the_default_of_bytes_is_published_in_base64():
    site = Site()

    @site.tool
    def tool(data: bytes = DATA) -> str:
        return repr(data)

    schema = site.registry.tools["tool"].input_schema
    assert schema["properties"]["data"]["default"] == TEXT
    assert site.call("tool").content[0].text == repr(DATA)


def test_a_class_that_reads_a_state_gets_the_bytes_that_were_kept():
    kept = decode(encode({"name": "a", "data": DATA}))

    assert convert(Picture, kept) == Picture("a", DATA)
