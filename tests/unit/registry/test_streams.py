"""Open files and responses of HTTP that handlers return: no lists of lines."""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.db import models
from django.db.models.fields.files import FieldFile
from django.http import FileResponse, Http404, HttpResponse, JsonResponse, StreamingHttpResponse

from django_mcp.execution.values import DJANGO_CONVERTER
from django_mcp.protocol.content import File
from django_mcp.registry.returns import ReturnError
from django_mcp.registry.signatures import EMPTY
from tests.support.registry import Site


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "report.csv"
    file.write_text("a\nb\n")
    return file


def call(value: Any, returns: Any = EMPTY) -> Any:
    site = Site(DJANGO_CONVERTER)

    def tool() -> Any:
        return value

    tool.__annotations__.pop("return")
    if returns is not EMPTY:
        tool.__annotations__["return"] = returns
    site.tool(tool)
    return site.call("tool")


@pytest.mark.parametrize("returns", [EMPTY, list[str], str, list[bytes], dict[str, Any]])
@pytest.mark.parametrize("mode", ["r", "rb"])
def test_an_open_file_is_refused_with_a_hint(path: Path, mode: str, returns: Any):
    with (
        path.open(mode) as file,
        pytest.raises(ReturnError, match=r"an open file.*return File\(file\)"),
    ):
        call(file, returns)


@pytest.mark.parametrize(
    "make", [lambda: io.BytesIO(b"a\nb"), tempfile.NamedTemporaryFile, lambda: ContentFile(b"a")]
)
def test_what_reads_as_a_file_does_is_refused_with_a_hint(make: Any):
    with make() as file, pytest.raises(ReturnError, match=r"an open file.*return File\(file\)"):
        call(file)


def make_stored(name: str) -> FieldFile:
    field = models.FileField(name="scan")
    field.set_attributes_from_name("scan")
    instance: Any = SimpleNamespace()
    return FieldFile(instance, field, name)


@pytest.mark.parametrize("name", ["", "lost/report.csv"])
def test_the_file_of_a_field_is_refused_with_a_hint_without_being_opened(name: str):
    file = make_stored(name)

    for returns in (EMPTY, str, dict[str, Any]):
        with pytest.raises(ReturnError, match=r"an open file.*return File\(file\)"):
            call(file, returns)
    for value in ({"scan": file}, [{"scan": file}], [file]):
        with pytest.raises(ReturnError, match="'scan' is a file: return its name or url"):
            call(value)


def test_a_file_in_a_dict_or_a_list_is_refused(path: Path):
    with path.open() as file:
        for value in ({"file": file}, [file], (file,)):
            with pytest.raises(ReturnError, match="an open file"):
                call(value)


@pytest.mark.parametrize("returns", [EMPTY, Any, list[int]])
def test_an_exception_for_a_response_is_to_be_raised(returns: Any):
    with pytest.raises(ReturnError, match="an exception, Http404: raise it instead"):
        call(Http404("Nothing is there."), returns)


# The end of a response closes old connections.
@pytest.mark.django_db
@pytest.mark.parametrize("returns", [EMPTY, list[str], list[bytes]])
@pytest.mark.parametrize(
    "make",
    [
        lambda path: HttpResponse("a"),
        lambda path: JsonResponse({"a": 1}),
        lambda path: StreamingHttpResponse(iter(["a", "b"])),
        lambda path: FileResponse(path.open("rb")),
    ],
)
def test_a_response_of_http_is_refused_with_a_hint(path: Path, make: Any, returns: Any):
    response = make(path)

    with pytest.raises(ReturnError, match=r"a response of HTTP.*return its data"):
        call(response, returns)
    response.close()


class Received:
    """A response as libraries for HTTP return it: an iterable of its parts."""

    status_code = 200

    def __iter__(self) -> Iterator[str]:
        yield "a"


@pytest.mark.parametrize("returns", [EMPTY, list[str]])
def test_a_response_that_another_library_received_is_refused_too(returns: Any):
    with pytest.raises(ReturnError, match=r"a response of HTTP.*return its data"):
        call(Received(), returns)


def test_a_resource_and_a_prompt_refuse_an_open_file_too(path: Path):
    site = Site(DJANGO_CONVERTER)
    with path.open() as file:
        site.resource("report://all", name="report")(lambda: file)
        site.prompt(name="report")(lambda: file)
        for entry in (*site.registry.resources.values(), *site.registry.prompts.values()):
            convert = entry.handler.convert
            keywords = {"uri": "report://all"} if entry.kind.mapping == "resources" else {}
            with pytest.raises(ReturnError, match="an open file"):
                convert(entry.handler.function(), **keywords)


def test_a_wrapped_file_and_iterators_of_other_kinds_are_results(path: Path):
    with path.open("rb") as file:
        (block,) = call(File(file, name="report.csv")).content
        assert block.resource.text == "a\nb\n"
    assert call({"rows": iter([1, 2])}).structured == {"rows": [1, 2]}
    assert call(map(str, [1, 2])).structured == ["1", "2"]
    assert call((each for each in "ab"), list[str]).structured == ["a", "b"]
