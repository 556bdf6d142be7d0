"""The log: what a client has sent writes no lines of it, and does not fill it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from django_mcp import MCPServer
from django_mcp.log import logger
from django_mcp.test import MCPClient

FORGED = "x\nERROR django_mcp: all is lost\x1b[2J\u202e"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a site's handler with Django's own format writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def test_a_client_text_in_an_exception_of_the_site_writes_no_line_of_the_log(written: io.StringIO):
    server = MCPServer("log", public=True)

    @server.tool(read_only=True)
    def look_up(name: str) -> str:
        try:
            return dict[str, str]()[name]
        except KeyError as error:
            error.add_note(f"looked for {name}")
            raise RuntimeError(f"There is no {name}") from error

    found = MCPClient(server).call("look_up", name=FORGED + "x" * 1_000_000)

    assert "Internal error" in found.text
    text = written.getvalue()
    assert "RuntimeError: There is no x\\nERROR" in text
    assert "KeyError" in text
    assert "in look_up" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert [line for line in text.splitlines() if line.startswith("ERROR")] == [
        text.splitlines()[0]
    ]
    assert len(text) < 40_000


@pytest.mark.parametrize("form", ["%s", "%r", "%.9000s"])
@pytest.mark.parametrize("kind", [str, ValueError, lambda text: [text]])
def test_an_argument_of_a_record_is_one_short_line(written: io.StringIO, form: str, kind: type):
    logger.warning(f"It is {form}", kind(FORGED + "y" * 100_000))  # noqa: G004 - the form varies

    text = written.getvalue()
    assert text.count("\n") == 1
    assert text.isprintable() or text.rstrip("\n").isprintable()
    assert len(text) < 4_000


def test_arguments_by_name_and_numbers_keep_their_forms(written: io.StringIO):
    logger.warning("%(count)05d of %(name)s", {"count": 7, "name": FORGED})
    logger.warning("%5.1f %d %s %s", 1.25, 3, None, True)

    first, second = written.getvalue().splitlines()
    assert first.startswith("WARNING django_mcp: 00007 of x\\nERROR")
    assert second == "WARNING django_mcp:   1.2 3 None True"


def test_an_exception_whose_text_fails_and_a_group_are_logged(written: io.StringIO):
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    group = ExceptionGroup("several", [ValueError(FORGED), Broken()])
    logger.error("It failed", exc_info=group)

    text = written.getvalue()
    assert "ExceptionGroup: several" in text
    assert "ValueError: x\\nERROR" in text
    assert "Broken: <its text cannot be read: RuntimeError>" in text


def test_an_endless_recursion_is_logged_in_short(written: io.StringIO):
    def fall(deep: int) -> int:
        return fall(deep + 1) + 1

    with pytest.raises(RecursionError) as caught:
        fall(0)
    logger.error("It failed", exc_info=caught.value)

    assert "RecursionError" in written.getvalue()
    assert len(written.getvalue()) < 40_000
