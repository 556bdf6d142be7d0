"""Resources and templates: variables to parameters, and return values to contents."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel

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
from django_mcp.protocol.json import decode
from django_mcp.protocol.results import CacheHint, ReadResult
from django_mcp.registry.problems import ArgumentErrors, RegistrationError
from django_mcp.registry.returns import ReturnError
from django_mcp.registry.signatures import EMPTY
from django_mcp.server.memory import PlainConverter
from tests.support.registry import Ctx, Lazy, Site, User, bind

URI = "thing://1"


class Model(BaseModel):
    number: int


@dataclass
class Data:
    number: int


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def contents(value: Any, annotation: Any = EMPTY, **options: Any) -> list[Any]:
    """Return what is read from a resource that returns a value."""
    site = Site(options.pop("converter", None))

    def handle():
        return value

    if annotation is not EMPTY:
        handle.__annotations__["return"] = annotation
    entry = site.register_resource(URI, handle, **options)
    return list(entry.convert(entry.handler.function(), URI).contents)


def read(site: Site, uri: str, ctx: Any = None) -> Any:
    """Read a URI as a server does, and return what the handler returned."""
    (entry,) = site.registry.templates.values()
    variables = entry.template.match(uri)
    assert variables is not None
    return entry.handler.function(**bind(entry.handler, variables, ctx or Ctx()))


@pytest.mark.parametrize(
    ("value", "text", "mime_type"),
    [
        ("text", "text", "text/plain"),
        (Lazy(en="text"), "text", "text/plain"),
        (Text("text"), "text", "text/plain"),
        ({"a": 1}, '{"a":1}', "application/json"),
        ([1, "a"], '[1,"a"]', "application/json"),
        (["a", "b"], '["a","b"]', "application/json"),
        (Model(number=1), '{"number":1}', "application/json"),
        (Data(1), '{"number":1}', "application/json"),
        ([Data(1)], '[{"number":1}]', "application/json"),
        (5, "5", "application/json"),
        (date(2030, 1, 2), "2030-01-02", "text/plain"),
        (({"n": n} for n in (1, 2)), '[{"n":1},{"n":2}]', "application/json"),
    ],
)
def test_text_and_data_become_text_contents(value: Any, text: str, mime_type: str):
    assert contents(value) == [TextContents(URI, text, mime_type=mime_type)]


@pytest.mark.parametrize(
    ("value", "blob", "mime_type"),
    [
        (b"\x00", b"\x00", "application/octet-stream"),
        (memoryview(b"\x00"), b"\x00", "application/octet-stream"),
        (Image(b"png"), b"png", "image/png"),
        (Audio(b"wav", "audio/wav"), b"wav", "audio/wav"),
        (File(b"pdf", name="a.pdf"), b"pdf", "application/pdf"),
        (File(b"png", name="a.png"), b"png", "image/png"),
    ],
)
def test_bytes_become_blob_contents(value: Any, blob: bytes, mime_type: str):
    assert contents(value) == [BlobContents(URI, blob, mime_type=mime_type)]


def test_a_text_file_becomes_text_contents():
    assert contents(File(b"a,b", name="a.csv")) == [TextContents(URI, "a,b", mime_type="text/csv")]


@pytest.mark.parametrize("value", ["# Hi", {"a": 1}, b"\x00"])
def test_the_mime_type_of_the_resource_takes_precedence(value: Any):
    assert contents(value, mime_type="text/markdown")[0].mime_type == "text/markdown"


def test_contents_keep_their_own_uri():
    one, other = TextContents("thing://2", "a"), BlobContents("thing://3", b"b")

    assert contents(one) == [one]
    assert contents([one, other]) == [one, other]
    assert contents(EmbeddedResource(one)) == [one]
    assert contents([one, "text", {"a": 1}]) == [
        one,
        TextContents(URI, "text", mime_type="text/plain"),
        TextContents(URI, '{"a":1}', mime_type="application/json"),
    ]


def test_a_result_object_is_returned_unchanged():
    site = Site()
    given = ReadResult([TextContents(URI, "a")], cache=CacheHint(5))
    entry = site.register_resource(URI, lambda: given, name="thing")

    assert entry.convert(given, URI) is given


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "returned None"),
        (ResourceLink("a://b", "n"), "returned a link"),
        (object(), "cannot be represented in JSON"),
    ],
)
def test_invalid_contents_are_rejected_with_a_hint(value: Any, message: str):
    with pytest.raises(ReturnError, match=message):
        contents(value)


def test_declared_fields_are_read_from_attributes():
    class Row:
        number, secret = 7, "hidden"

    class Rows:
        def __iter__(self) -> Iterator[Any]:
            return iter([Row()])

    (found,) = contents(Rows(), list[Data])

    assert decode(found.text) == [{"number": 7}]


def test_framework_objects_are_converted():
    class Rows: ...

    class Converter(PlainConverter):
        def convert(self, value: Any) -> Any:
            return [1] if isinstance(value, Rows) else value

    assert contents(Rows(), converter=Converter())[0].text == "[1]"


@pytest.mark.parametrize(
    ("annotation", "mime_type"),
    [
        (str, "text/plain"),
        (bytes, "application/octet-stream"),
        (dict, "application/json"),
        (dict[str, Any], "application/json"),
        (list[str], "application/json"),
        (Model, "application/json"),
        (list[Any], None),
        (list[TextContents], None),
        (ReadResult, None),
        (Any, None),
        (EMPTY, None),
    ],
)
def test_the_listed_mime_type_follows_the_annotation(annotation: Any, mime_type: str | None):
    def handle(): ...

    if annotation is not EMPTY:
        handle.__annotations__["return"] = annotation

    assert Site().register_resource(URI, handle).mime_type == mime_type


def test_a_resource_is_listed_with_its_options(site: Site):
    @site.resource(
        URI,
        name="thing",
        title=Lazy(en="Thing"),
        mime_type="text/markdown",
        size=7,
        icons=["https://example.com/i.png"],
        annotations=Annotations(audience=["user"], priority=0.5),
        meta={"example.com/a": 1},
        cache=CacheHint(1000),
    )
    def handle() -> str:
        """Something to read."""
        return ""

    entry = site.registry.resources[URI]

    assert entry.to_wire() == {
        "uri": URI,
        "name": "thing",
        "title": "Thing",
        "description": "Something to read.",
        "size": 7,
        "mimeType": "text/markdown",
        "annotations": {"audience": ["user"], "priority": 0.5},
        "icons": [{"src": "https://example.com/i.png"}],
        "_meta": {"example.com/a": 1},
    }
    assert entry.cache == CacheHint(1000)
    assert handle() == ""


def test_a_template_is_listed_by_its_template(site: Site):
    @site.resource("order://{pk}")
    def order(pk: int) -> dict[str, int]:
        """One order."""
        return {"pk": pk}

    assert site.registry.templates["order://{pk}"].to_wire() == {
        "uriTemplate": "order://{pk}",
        "name": "order",
        "description": "One order.",
        "mimeType": "application/json",
    }
    assert not site.registry.resources


@pytest.mark.parametrize(
    ("annotation", "text", "expected"),
    [
        (int, "5", 5),
        (str, "5", "5"),
        (date, "2030-01-02", date(2030, 1, 2)),
        (UUID, str(UUID(int=1)), UUID(int=1)),
        (Color, "red", Color.RED),
        (Literal[1, 2], "2", 2),
        (bool, "true", True),
        (Any, "5", "5"),
        (int | None, "5", 5),
    ],
)
def test_variables_are_converted_by_type_hints(
    site: Site, annotation: Any, text: str, expected: Any
):
    def handle(value):
        return value

    handle.__annotations__["value"] = annotation
    site.register_resource("thing://{value}", handle)

    assert read(site, f"thing://{text}") == expected


@pytest.mark.parametrize("text", ["abc", "1.5", "1e3", "%20", "٣"])
def test_a_variable_that_fails_conversion_is_not_found(site: Site, text: str):
    @site.resource("order://{pk}")
    def order(pk: int) -> int:
        return pk

    with pytest.raises(ArgumentErrors):
        read(site, f"order://{text}")


def test_variables_may_be_optional_or_lists(site: Site):
    @site.resource("search://{term}{?page,tags*}")
    def search(
        ctx: Ctx, user: User, term: str, page: int = 1, tags: list[int] | None = None
    ) -> Any:
        return [user, term, page, tags]

    assert read(site, "search://a") == ["jane", "a", 1, None]
    assert read(site, "search://a?page=2&tags=3&tags=4") == ["jane", "a", 2, [3, 4]]


def test_structured_parameters_are_read_from_json(site: Site):
    @site.resource("search://{terms}")
    def search(terms: dict[str, int]) -> Any:
        return terms

    assert read(site, "search://%7B%22a%22%3A1%7D") == {"a": 1}


@pytest.mark.parametrize(
    "uri", ["file://..%2f..%2fetc%2fpasswd", "file://..", "file://a%00b", "file://a/../b"]
)
def test_path_traversal_matches_nothing(site: Site, uri: str):
    @site.resource("file://{+path}")
    def file(path: str) -> str:
        return path

    assert site.registry.templates["file://{+path}"].template.match(uri) is None


@pytest.mark.parametrize(
    ("uri", "function", "message"),
    [
        ("order://1", lambda pk: pk, "has no variables, so nothing gives `pk`"),
        ("order://{pk}", lambda: 1, "variables of 'order://{pk}' are `pk`, but .* are none"),
        ("order://{pk}", lambda pk, q: 1, "parameters are `pk`, `q`"),
        ("order://{pk}", lambda number: 1, "Give both the same names"),
        ("order://{pk}{?page}", lambda pk, page: 1, "Give the parameter `page` a default"),
        ("order://{pk", lambda pk: 1, "'{' is not allowed in a URI"),
        ("order://{a}{b}", lambda a, b: 1, "nothing separates"),
        ("{pk}", lambda pk: 1, "not an absolute URI"),
        ("order", lambda: 1, "not an absolute URI"),
        ("order://a b", lambda: 1, "not an absolute URI"),
        (
            "my_orders://all",
            lambda: 1,
            "has the scheme 'my_orders': a scheme begins with a letter, ",
        ),
        ("my_orders://{pk}", lambda pk: 1, "has the scheme 'my_orders'"),
        ("order://<int:pk>", lambda: 1, "a variable of a URI is written as {pk}"),
        ("order://ü", lambda: 1, "percent-encode"),
    ],
)
def test_mismatched_template_and_signature_are_rejected(
    site: Site, uri: str, function: Any, message: str
):
    with pytest.raises(RegistrationError, match=message) as refusal:
        site.resource(uri, name="x")(function)

    assert "test_resources.py" in str(refusal.value)


def test_a_list_variable_cannot_be_a_number(site: Site):
    def handle(tags: int) -> None: ...

    with pytest.raises(RegistrationError, match="Annotate the parameter as one"):
        site.register_resource("x://a{/tags*}", handle)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mime_type": "text"}, "It must be a MIME type such as 'image/png'"),
        ({"mime_type": 5}, "It must be a MIME type such as 'image/png'"),
        ({"size": -1}, "size= cannot be -1. It must be a whole number of bytes"),
        ({"cache": 5}, r"It must be CacheHint\(...\)"),
        ({"icons": ["javascript:alert(1)"]}, "neither https: nor data:"),
        ({"annotations": {"priority": 1}}, r"It must be Annotations\(...\)"),
        ({"meta": {"a b": 1}}, "not a _meta key"),
        ({"meta": {"io.modelcontextprotocol/x": 1}}, "is reserved for the protocol"),
        ({"title": "a\u202eb"}, "RIGHT-TO-LEFT OVERRIDE"),
        ({"check": "no"}, "check= cannot be 'no'. It must be a function"),
        ({"scopes": [1]}, r"scopes= cannot be \[1\]. It must be a list of scope names"),
    ],
)
def test_options_are_validated(site: Site, options: Any, message: str):
    with pytest.raises(RegistrationError, match=message):
        site.register_resource(URI, lambda: "", name="x", **options)


def test_the_decorator_needs_a_uri(site: Site):
    with pytest.raises(RegistrationError, match="a resource needs a URI"):

        @site.resource  # type: ignore[arg-type]
        def handle() -> str:
            return ""


def test_icons_may_be_given_as_objects(site: Site):
    icon = Icon("https://example.com/i.png", sizes=["48x48"])
    same = {"src": "https://example.com/i.png", "sizes": ["48x48"]}

    assert site.register_resource(URI, lambda: "", name="x", icons=[icon, same]).icons == (
        icon,
        icon,
    )


class Reporting(PlainConverter):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def report(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize(
    ("value", "mime_type", "fault"),
    [
        ("iVBORw0KGgo=", "image/png", "image/png and returned text: return the content as bytes"),
        ("{'a': 1}", "application/json", "application/json and returned text that is not JSON"),
        ("", "application/geo+json; charset=utf-8", "returned text that is not JSON"),
        (b"\x89PNG", "image/png", None),
        ("<svg/>", "image/svg+xml", None),
        ('{"a": 1}', "application/json", None),
        ({"a": 1}, "application/json", None),
        ("{'a': 1}", "text/plain", None),
        ("{'a': 1}", None, None),
    ],
)
def test_a_text_that_is_not_of_its_mime_type_is_reported_once(
    value: Any, mime_type: str | None, fault: str | None
):
    converter = Reporting()
    site = Site(converter)

    def handle():
        return value

    entry = site.register_resource(URI, handle, mime_type=mime_type)
    for _ in range(2):
        assert list(entry.convert(value, URI).contents)

    assert len(converter.texts) == (fault is not None)
    assert all("handle (" in text and str(fault) in text for text in converter.texts)
