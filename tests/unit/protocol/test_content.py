"""Content blocks, icons, annotations and files."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.protocol.annotations import Annotations, Icon
from django_mcp.protocol.content import (
    Audio,
    BlobContents,
    EmbeddedResource,
    File,
    Image,
    ResourceLink,
    Text,
    TextContents,
)
from django_mcp.protocol.json import encode

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def later(kind: Any, *args: Any, **kwargs: Any) -> Callable[[], Any]:
    return lambda: kind(*args, **kwargs)


class Promise:
    """A string that is made when it is asked for, as lazy translations are."""

    def __str__(self) -> str:
        return "kept"


class SafeText(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self


# --- the wire


@pytest.mark.parametrize(
    ("made", "wire"),
    [
        (Text("hi"), {"type": "text", "text": "hi"}),
        (Text(text="hi", meta={"a": 1}), {"type": "text", "text": "hi", "_meta": {"a": 1}}),
        (Image(b"\xff\x00"), {"type": "image", "data": "/wA=", "mimeType": "image/png"}),
        (
            Image(b"", mime_type="image/jpeg"),
            {"type": "image", "data": "", "mimeType": "image/jpeg"},
        ),
        (Audio(b"a", "audio/wav"), {"type": "audio", "data": "YQ==", "mimeType": "audio/wav"}),
        (
            ResourceLink("order://1", "one"),
            {"type": "resource_link", "uri": "order://1", "name": "one"},
        ),
        (
            ResourceLink(
                uri="order://1",
                name="one",
                title="One",
                description="The first",
                mime_type="text/plain",
                size=0,
                icons=[Icon("https://example.com/a.png")],
                annotations=Annotations(priority=0),
            ),
            {
                "type": "resource_link",
                "uri": "order://1",
                "name": "one",
                "title": "One",
                "description": "The first",
                "mimeType": "text/plain",
                "size": 0,
                "icons": [{"src": "https://example.com/a.png"}],
                "annotations": {"priority": 0},
            },
        ),
        (TextContents("a:b", "x"), {"uri": "a:b", "text": "x"}),
        (
            TextContents("a:b", "x", mime_type="text/plain", meta={"k": 1}),
            {"uri": "a:b", "mimeType": "text/plain", "text": "x", "_meta": {"k": 1}},
        ),
        (BlobContents("a:b", b"\x00"), {"uri": "a:b", "blob": "AA=="}),
        (
            EmbeddedResource(BlobContents("a:b", b"", mime_type="application/pdf")),
            {
                "type": "resource",
                "resource": {"uri": "a:b", "mimeType": "application/pdf", "blob": ""},
            },
        ),
        (Icon(PIXEL), {"src": PIXEL}),
        (
            Icon("https://a.b/c", mime_type="image/svg+xml", sizes=["any", "48x48"], theme="dark"),
            {
                "src": "https://a.b/c",
                "mimeType": "image/svg+xml",
                "sizes": ["any", "48x48"],
                "theme": "dark",
            },
        ),
        (Annotations(), {}),
        (
            Annotations(audience=["user", "assistant"], priority=0.5),
            {"audience": ["user", "assistant"], "priority": 0.5},
        ),
        (
            Annotations(last_modified=datetime(2030, 1, 12, 15, 0, 58, tzinfo=UTC)),
            {"lastModified": "2030-01-12T15:00:58Z"},
        ),
        (Annotations(last_modified="2030-01-12"), {"lastModified": "2030-01-12"}),
    ],
)
def test_values_are_serialized_without_unset_fields(made: Any, wire):
    assert made.to_wire() == wire
    assert encode(made.to_wire())


@given(st.binary())
def test_bytes_are_written_in_padded_base64(data):
    for wire in (Image(data).to_wire()["data"], BlobContents("a:b", data).to_wire()["blob"]):
        assert base64.b64decode(wire, validate=True) == data


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_bytes_like_type_is_accepted(kind):
    assert Image(kind(b"ab")).data == b"ab"


def test_lazy_and_safe_strings_become_plain_strings():
    assert Text(Promise()).text == "kept"  # type: ignore[arg-type]
    assert type(Text(SafeText("x")).text) is str
    assert type(TextContents("a:b", SafeText("x")).text) is str
    assert ResourceLink("a:b", "n", title=Promise()).to_wire()["title"] == "kept"  # type: ignore[arg-type]


def test_values_are_frozen_and_equal_by_value():
    assert Text("a") == Text("a")
    with pytest.raises(AttributeError):
        Text("a").text = "b"  # type: ignore[misc]


# --- invalid content


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (later(Text, b"x"), "made of a string"),
        (later(Text, None), "made of a string"),
        (later(Image, "aGk="), "decode what is in Base64"),
        (later(Audio, None, "audio/wav"), "made of bytes"),
        (later(Image, b"", mime_type="application/pdf"), "use File"),
        (later(Audio, b"", mime_type="video/mp4"), "use File"),
        (later(Image, b"", mime_type="png"), "like 'image/png'"),
        (later(TextContents, "a:b", "", mime_type="text"), "like 'image/png'"),
        (later(TextContents, "a:b", "", mime_type="text/plain\n"), "like 'image/png'"),
        (later(TextContents, "a:b", "", mime_type="text/plain; a=\x00"), "like 'image/png'"),
        (later(TextContents, "no uri", ""), "like 'order://42'"),
        (later(BlobContents, "/path", b""), "like 'order://42'"),
        (later(ResourceLink, "a:b c", "n"), "like 'order://42'"),
        (later(ResourceLink, "a:b", "n", size=-1), "number of bytes"),
        (later(EmbeddedResource, Text("x")), "TextContents or BlobContents"),
        (later(Text, "x", meta={"a b": 1}), "example.com/order"),
        (later(Annotations, audience=["robot"]), "'user' and 'assistant'"),
        (later(Annotations, audience="user"), r"write \[audience\]"),
        (later(Annotations, priority=1.1), "from 0 to 1"),
        (later(Annotations, priority=-0.1), "from 0 to 1"),
        (later(Annotations, priority=float("nan")), "from 0 to 1"),
        (later(Annotations, last_modified="yesterday"), "2030-01-12"),
        (later(Annotations, last_modified=datetime(2030, 1, 1)), "no time zone"),  # noqa: DTZ001
        (later(File, b"", mime_type="x"), "like 'image/png'"),
    ],
)
def test_content_clients_cannot_read_is_rejected_with_a_hint(make, remedy):
    with pytest.raises((TypeError, ValueError), match=remedy):
        make()


@pytest.mark.parametrize(
    ("src", "remedy"),
    [
        ("http://example.com/a.png", "over https"),
        ("http://localhost/a.png", "over https"),
        ("HTTPS//x", "over https"),
        ("/static/a.png", "over https"),
        ("javascript:alert(1)", "over https"),
        ("file:///a.png", "over https"),
        ("https://a b", "absolute URI"),
        ("data:text/html;base64,AAAA", "data:image/png;base64"),
        ("data:image/png,AAAA", "data:image/png;base64"),
        ("data:image/png;base64", "data:image/png;base64"),
    ],
)
def test_an_icon_requires_https_or_a_data_uri(src, remedy):
    with pytest.raises(ValueError, match=remedy):
        Icon(src)


@pytest.mark.parametrize("size", ["48", "48X48", "0x48", "48x", "any ", ""])
def test_the_size_of_an_icon_is_width_by_height_or_any(size):
    with pytest.raises(ValueError, match="48x48"):
        Icon(PIXEL, sizes=[size])


def test_a_size_that_is_not_in_a_list_is_rejected():
    with pytest.raises(TypeError, match=r"write \[size\]"):
        Icon(PIXEL, sizes="48x48")


def test_the_theme_of_an_icon_is_light_or_dark():
    with pytest.raises(ValueError, match="neither 'light' nor 'dark'"):
        Icon(PIXEL, theme="blue")  # type: ignore[arg-type]


# --- files


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.png", Image(b"hi", "image/png")),
        ("A.JPG", Image(b"hi", "image/jpeg")),
        ("a.webp", Image(b"hi", "image/webp")),
        ("a.wav", Audio(b"hi", "audio/wav")),
        ("a.mp3", Audio(b"hi", "audio/mpeg")),
    ],
)
def test_images_and_audio_become_their_blocks(name, expected):
    assert File(b"hi", name=name).to_content() == expected


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("a.txt", "text/plain"),
        ("a.md", "text/markdown"),
        ("a.csv", "text/csv"),
        ("a.json", "application/json"),
        ("a.yaml", "application/yaml"),
        ("a.html", "text/html"),
    ],
)
def test_text_becomes_an_embedded_text_resource(name, mime_type):
    contents = TextContents(f"attachment://{name}", "hi", mime_type=mime_type)

    assert File(b"hi", name=name).to_content() == EmbeddedResource(contents)


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("a.pdf", "application/pdf"),
        ("a.tar.gz", "application/gzip"),
        ("a.csv.gz", "application/gzip"),
        ("a.bz2", "application/octet-stream"),
        ("a", "application/octet-stream"),
        ("data:text;x.nothing", "application/octet-stream"),
    ],
)
def test_everything_else_becomes_an_embedded_blob_resource(name, mime_type):
    found = File(b"hi", name=name).to_content()

    assert isinstance(found, EmbeddedResource)
    assert isinstance(found.resource, BlobContents)
    assert found.resource.mime_type == mime_type


def test_an_explicit_mime_type_overrides_the_file_name():
    assert File(b"hi", name="a.txt", mime_type="image/png").to_content() == Image(b"hi")
    stated = File(b"{}", mime_type="application/problem+json; charset=utf-8").to_content()
    assert stated.to_wire()["resource"]["text"] == "{}"


def test_text_in_another_encoding_stays_bytes():
    found = File("é".encode("latin-1"), name="a.txt").to_wire()

    assert found["resource"] == {
        "uri": "attachment://a.txt",
        "mimeType": "text/plain",
        "blob": "6Q==",
    }


def test_a_path_is_read_and_gives_the_name(tmp_path):
    path = tmp_path / "Übersicht 1.txt"
    path.write_text("hi", encoding="utf-8")

    for source in (path, str(path)):
        resource = File(source).to_wire()["resource"]
        assert resource["uri"] == "attachment://%C3%9Cbersicht%201.txt"
        assert resource["text"] == "hi"


def test_an_open_file_is_read(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"hi")

    with path.open("rb") as file:
        assert File(file).to_content() == Image(b"hi")
    assert File(io.StringIO("é"), name="a.txt").to_wire()["resource"]["text"] == "é"


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        File(tmp_path / "missing").to_content()


def test_annotations_and_meta_reach_the_block():
    found = File(b"", name="a.png", annotations=Annotations(priority=1), meta={"k": 1}).to_wire()

    assert found["annotations"] == {"priority": 1}
    assert found["_meta"] == {"k": 1}
