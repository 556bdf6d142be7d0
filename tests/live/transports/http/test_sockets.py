"""Both drivers over real sockets, behind every supported server."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.http.rawhttp import RawClient, Response, connect, head, post
from tests.support.http.scripted import script
from tests.support.sites import (
    Running,
    command,
    environment,
    free_port,
    running,
    wait_until_it_listens,
)

SITE = "tests.support.site.http"
MiB = 1024 * 1024
GOOD = {"Host": "localhost"}

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


async def ask(site: Running, raw: bytes) -> Response:
    async with connect(site.host, site.port) as client:
        return await client.ask(raw)


async def do(site: Running, *steps: Any, path: str = "/mcp") -> Response:
    return await ask(site, post(path, script(*steps)))


# -- one call


@pytest.mark.parametrize("path", ["/mcp", "/view"])
async def test_one_connection_serves_json_and_streams_alternately(site: Running, path: str):
    async with connect(site.host, site.port) as client:
        plain = await client.ask(post(path, script(["reply", 200, {"x": 1}])))
        stream = await client.ask(post(path, script(["send", 1], ["reply", 200, 2])))
        notified = await client.ask(post(path, script(["reply", 202, None])))
        again = await client.ask(post(path, script(["reply", 404, "no"])))

    assert (plain.status, plain.json) == (200, {"x": 1})
    assert stream.headers["content-type"] == "text/event-stream"
    assert [event.data for event in stream.events] == ["1", "2"]
    assert (notified.status, notified.body) == (202, b"")
    assert (again.status, again.json) == (404, "no")


@pytest.mark.parametrize("path", ["/mcp", "/view"])
async def test_an_event_arrives_before_the_next_is_created(site: Running, path: str):
    async with connect(site.host, site.port) as client:
        await client.send(post(path, script(["send", 1], ["wait", f"go{path}"], ["reply", 200, 2])))
        await client.read_head()
        await client.read_until(b"data: 1\n\n")
        await do(site, ["set", f"go{path}"], path=path)
        await client.read_until(b"data: 2\n\n")


@pytest.mark.parametrize("path", ["/hasty", "/hasty-view"])
async def test_a_silent_call_is_kept_alive(site: Running, path: str):
    """Keep-alive comments, then the response."""
    event = f"heard{path}"
    async with connect(site.host, site.port) as client:
        await client.send(post(path, script(["wait", event], ["reply", 200, "x"])))
        await client.read_head()
        await client.read_until(b":\n\n")
        await client.read_until(b":\n\n")
        await do(site, ["set", event], path=path)
        await client.read_until(b'data: "x"\n\n')


async def test_a_chunked_body_is_read(site: Running):
    body = script(["tell", "size"])
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    raw = post("/mcp", b"", {"Content-Length": "", "Transfer-Encoding": "chunked"}) + chunks

    assert (await ask(site, raw)).json == len(body)


@pytest.mark.parametrize("path", ["/mcp", "/view"])
async def test_concurrent_requests_get_their_own_responses(site: Running, path: str):
    answers = await asyncio.gather(
        *(do(site, ["send", n], ["reply", 200, n], path=path) for n in range(50))
    )

    assert [[event.data for event in answer.events] for answer in answers] == [
        [str(n), str(n)] for n in range(50)
    ]


# -- bad input


@pytest.mark.parametrize("path", ["/mcp", "/view"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:80"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[::ffff:127.0.0.1]"}, 403),
        ({"Host": "a@localhost"}, 400),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "https://evil.example", "Host": "mcp.example"}, 403),
        ({"Origin": "http://localhost:1", "Host": "mcp.example"}, 403),
        ({"Origin": "http://mcp.example.", "Host": "mcp.example"}, 403),
        ({"Origin": "http://mcp.example:81", "Host": "mcp.example"}, 403),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json; charset=utf-16"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Accept": "text/html"}, 406),
    ],
)
async def test_bad_headers_are_rejected(
    site: Running, path: str, headers: dict[str, str], status: int
):
    """Always with a JSON body."""
    refused = await ask(site, post(path, script(["reply", 200, 1]), headers))

    assert refused.status == status
    assert refused.headers["content-type"] == "application/json"
    assert refused.json["error"]["code"] == -32600
    assert "id" not in refused.json


@pytest.mark.parametrize("path", ["/mcp", "/view"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "LOCALHOST:8000"},
        {"Host": "localhost."},
        {"Host": "[::1]:8000"},
        {"Accept": ""},
        {"Accept": "*/*"},
        {"Origin": "http://localhost:6274", "Host": "127.0.0.1"},
        {"Origin": "http://mcp.example", "Host": "mcp.example"},
        {"Origin": "https://mcp.example", "Host": "mcp.example"},
        {"Origin": "https://pages.example", "Host": "mcp.example"},
        {"Content-Encoding": "identity"},
    ],
)
async def test_valid_headers_pass(site: Running, path: str, headers: dict[str, str]):
    answer = await ask(site, post(path, script(["reply", 200, 1]), headers))

    assert answer.status == 200


@pytest.mark.parametrize("path", ["/mcp", "/view"])
@pytest.mark.parametrize(
    "lines",
    [
        [],
        [("Host", "localhost"), ("Host", "localhost")],
        [("Host", "localhost"), ("Host", "evil.example")],
        [("Host", "localhost"), ("Origin", "null"), ("Origin", "http://localhost")],
        [("Host", "localhost"), ("Content-Length", "5")],
    ],
)
async def test_missing_and_duplicate_headers_are_rejected(
    site: Running, path: str, lines: list[tuple[str, str]]
):
    body = script(["reply", 200, 1])
    own = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]

    refused = await ask(site, head("POST", path, [*lines, *own]) + body)

    assert refused.status in (400, 403)


@pytest.mark.parametrize("path", ["/mcp", "/view"])
async def test_a_header_of_64_kb_is_rejected(uvicorn: Running, path: str):
    """431. Daphne closes the connection before the application runs."""
    refused = await ask(uvicorn, post(path, b"[]", {"X-Long": "x" * 64 * 1024}))

    assert refused.status == 431


@pytest.mark.parametrize("path", ["/mcp", "/view"])
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD"])
async def test_other_methods_are_not_allowed(site: Running, path: str, method: str):
    """`Allow` lists the allowed ones."""
    async with connect(site.host, site.port) as client:
        await client.send(head(method, path, GOOD))
        refused = await client.read(method)

    assert refused.status == 405
    assert refused.headers["allow"] == "POST, OPTIONS"
    assert refused.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/mcp", "/view"])
async def test_a_browser_page_sends_a_preflight(site: Running, path: str):
    asked = {
        "Origin": "https://pages.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,mcp-method,mcp-param-region",
    }
    async with connect(site.host, site.port) as client:
        granted = await client.ask(head("OPTIONS", path, {**GOOD, **asked}))
        posted = await client.ask(
            post(path, script(["reply", 200, 1]), {"Origin": "https://pages.example"})
        )
        refused = await client.ask(head("OPTIONS", path, {**GOOD, "Origin": "http://evil.example"}))

    assert (granted.status, granted.body) == (204, b"")
    assert granted.headers["access-control-allow-origin"] == "https://pages.example"
    assert "mcp-param-region" in granted.headers["access-control-allow-headers"]
    assert "Origin" in granted.headers["vary"]
    assert posted.headers["access-control-allow-origin"] == "https://pages.example"
    assert "Mcp-Session-Id" in posted.headers["access-control-expose-headers"]
    assert refused.status == 403
    assert "access-control-allow-origin" not in refused.headers


def peak_memory_bytes(site: Running) -> int:
    lines = Path(f"/proc/{site.process.pid}/status").read_text().splitlines()
    (peak,) = [line for line in lines if line.startswith("VmHWM")]
    return int(peak.split()[1]) * 1024


async def pour(client: RawClient, total_bytes: int, *, chunked: bool) -> None:
    piece = b"x" * MiB
    framed = b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
    try:
        for _ in range(total_bytes // MiB):
            await client.send(framed)
    except ConnectionError:
        # It may stop reading once it has responded.
        return


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "not declared"])
async def test_a_body_of_200_mb_is_rejected_within_the_memory_cap(uvicorn: Running, chunked: bool):
    length = {"Content-Length": "", "Transfer-Encoding": "chunked"}
    if not chunked:
        length = {"Content-Length": str(200 * MiB)}
    before = peak_memory_bytes(uvicorn)
    async with connect(uvicorn.host, uvicorn.port) as client:
        await client.send(post("/mcp", b"", length))
        pouring = asyncio.create_task(pour(client, 200 * MiB, chunked=chunked))
        refused = await client.read()
        await pouring

    assert refused.status == 413
    assert refused.json["error"]["code"] == -32600
    assert peak_memory_bytes(uvicorn) - before < 16 * MiB
    assert (await do(uvicorn, ["reply", 200, 1])).status == 200


async def test_an_oversized_content_length_is_rejected_before_the_body(uvicorn: Running):
    """And before "100 Continue". Django and Daphne read the body before the application runs."""
    headers = {"Content-Length": str(200 * MiB), "Expect": "100-continue"}
    refused = await ask(uvicorn, post("/mcp", b"", headers))

    assert refused.status == 413


@pytest.mark.parametrize("path", ["/mcp", "/view"])
async def test_a_body_over_the_cap_is_rejected(site: Running, path: str):
    async with connect(site.host, site.port) as client:
        await client.send(post(path, b"", {"Content-Length": str(5 * MiB)}))
        pouring = asyncio.create_task(pour(client, 5 * MiB, chunked=False))
        refused = await client.read()
        await pouring

    assert refused.status == 413


@pytest.mark.parametrize("stalls", [False, True], ids=["trickles", "stalls"])
async def test_waiting_for_a_body_ends_at_the_deadline(uvicorn: Running, stalls: bool):
    """The connection is closed. Daphne runs the application only when the body is complete."""
    async with connect(uvicorn.host, uvicorn.port) as client:
        begun = time.monotonic()
        await client.send(post("/hasty", b"", {"Content-Length": "1000"}))
        reading = asyncio.create_task(client.read())
        while not reading.done():
            if not stalls:
                await client.send(b" ")
            await asyncio.wait((reading,), timeout=0.02)
        took_s = time.monotonic() - begun
        refused = reading.result()

        assert refused.status == 408
        # An event loop may call a timer early by the resolution of its clock.
        assert took_s >= 0.29
        assert await client.is_closed()


# -- disconnects


@pytest.mark.parametrize("path", ["/mcp", "/view"])
@pytest.mark.parametrize("streams", [False, True], ids=["silent", "streaming"])
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_disconnect_cancels_the_call(site: Running, path: str, streams: bool, how: str):
    name = f"gone{path}{streams}{how}"
    steps = [["call", name], ["cancels", True], *([["send", 1]] if streams else [])]
    async with connect(site.host, site.port) as client:
        await client.send(post(path, script(*steps, ["set", name], ["wait", "never"])))
        await do(site, ["wait", name], path=path)
        getattr(client, how)()
        seen = await do(site, ["wait", f"{name}:cancelled"], ["tell", "marked"], path=path)

    assert seen.status == 200


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("streams", [False, True], ids=["silent", "streaming"])
async def test_a_disconnect_behind_a_pipelined_request_cancels_the_call(
    uvicorn: Running, streams: bool, how: str
):
    """uvicorn tells only the latest request of a connection that the client has gone."""
    name = f"pipelined{streams}{how}"
    steps = [["call", name], ["cancels", True], *([["send", 1]] if streams else [])]
    async with connect(uvicorn.host, uvicorn.port) as client:
        first = post("/hasty", script(*steps, ["set", name], ["wait", "never"]))
        await client.send(first + post("/hasty", script(["tell", "marked"])))
        await do(uvicorn, ["wait", name], path="/hasty")
        getattr(client, how)()
        seen = await do(uvicorn, ["wait", f"{name}:cancelled"], ["tell", "marked"], path="/hasty")

    assert seen.status == 200


@pytest.mark.parametrize("path", ["/mcp", "/view"])
async def test_a_call_can_outlive_a_disconnect(site: Running, path: str):
    name = f"stays{path}"
    async with connect(site.host, site.port) as client:
        await client.send(
            post(path, script(["call", name], ["set", name], ["wait", f"{name} on"], ["send", 1]))
        )
        await do(site, ["wait", name], path=path)
        client.close()
    seen = await do(
        site, ["set", f"{name} on"], ["wait", f"{name}:finished"], ["tell", "marked"], path=path
    )

    assert f"{name}:cancelled" not in seen.json


@pytest.mark.parametrize("path", ["/mcp", "/view"])
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_truncated_request_is_harmless(site: Running, path: str, how: str):
    raw = post(path, script(["send", 1], ["send", 2], ["reply", 200, 1]))
    for cut in range(0, len(raw) + 1, 3):
        async with connect(site.host, site.port) as client:
            await client.send(raw[:cut])
            getattr(client, how)()

    assert (await do(site, ["reply", 200, 1], path=path)).status == 200


@pytest.fixture
def impatient_daphne(tmp_path: Path) -> Iterator[Running]:
    """A Daphne that waits one second, not ten, for an application whose client has gone."""
    port, log = free_port(), tmp_path / "daphne.log"
    arguments = command(SITE, "daphne", host="127.0.0.1", port=port)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*arguments, "--application-close-timeout", "1"],
            env=environment(SITE),
            stdout=output,
            stderr=output,
        )
    site = Running(host="127.0.0.1", port=port, process=process, log=log)
    try:
        wait_until_it_listens(site)
        yield site
    finally:
        site.stop()


async def test_daphne_finds_no_application_outliving_its_client(impatient_daphne: Running):
    """It would log so, and cancel the call."""
    site = impatient_daphne
    for cancels in (True, False):
        async with connect(site.host, site.port) as client:
            steps = [["cancels", cancels], ["call", f"{cancels}"], ["set", f"on {cancels}"]]
            await client.send(post("/mcp", script(*steps, ["wait", "never"])))
            await do(site, ["wait", f"on {cancels}"])
    # Daphne checks once a second.
    seen = await do(site, ["pause", 3.5], ["tell", "marked"])

    assert "True:cancelled" in seen.json
    assert "False:cancelled" not in seen.json
    assert site.log.read_text() == ""


# -- WSGI


async def test_under_wsgi_the_view_responds_with_one_body(tmp_path: Path):
    with running(SITE, "wsgi", log=tmp_path / "wsgi.log") as site:
        answer = await do(site, ["reply", 200, "alone"], path="/view")
        events = await do(site, ["send", 1], ["reply", 200, 2], path="/view")
        large = await ask(site, post("/view", b"", {"Content-Length": str(200 * MiB)}))
        foreign = await ask(site, post("/view", b"[]", {"Origin": "http://evil.example"}))

    assert answer.json == "alone"
    assert [event.data for event in events.events] == ["1", "2"]
    assert int(events.headers["content-length"]) > 0
    assert (large.status, foreign.status) == (413, 403)
