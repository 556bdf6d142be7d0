"""`manage.py mcp_stdio` in a separate process: what it writes to its pipes, and how it exits."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from django_mcp.protocol.revisions import Revision
from tests.support.stdio.process import LIMIT_S, PROGRAM, Process
from tests.support.wire import (
    HANDSHAKE,
    V2024_11_05,
    V2025_03_26,
    V2025_11_25,
    V2026_07_28,
    message,
)

by_handshake = pytest.mark.parametrize("revision", HANDSHAKE)


@pytest.fixture
def client() -> Iterator[Process]:
    """A client that has shaken hands at the newest revision that has that."""
    with Process() as process:
        process.initialize(elicitation={})
        yield process


# Messages over the pipes


@by_handshake
def test_each_revision_initializes_calls_and_exits(revision: Revision) -> None:
    with Process() as client:
        assert client.initialize(revision)["protocolVersion"] == revision.name
        assert client.call("echo", text="two\nlines\u2028") == "two\nlines\u2028"
        assert client.call("aecho", text="ä") == "ä"
        client.close_input()
        assert client.read_rest() == []
        assert client.wait() == 0


def test_messages_without_a_handshake_are_self_contained(client: Process) -> None:
    """Both eras on one pipe, and no state between messages of the newer one."""
    found = client.ask("server/discover", revision=V2026_07_28)["result"]
    assert V2026_07_28.name in found["supportedVersions"]
    params: dict[str, Any] = {"name": "confirm", "arguments": {}}
    asks: dict[str, Any] = {
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}
    }
    asked = client.ask("tools/call", {**params, "_meta": asks}, revision=V2026_07_28)["result"]
    assert asked["resultType"] == "input_required"
    # The question is in the result, and the next request declares no capability.
    assert client.ask("tools/call", params, revision=V2026_07_28)["error"]["code"] == -32021
    assert client.call("aecho", text="still the other era") == "still the other era"


def test_before_the_handshake_only_ping_is_accepted() -> None:
    with Process() as client:
        assert client.ask("ping")["result"] == {}
        assert "error" in client.ask("tools/list")
        client.initialize()
        assert "result" in client.ask("tools/list")


def test_a_handshake_is_not_cancelled_and_may_be_repeated() -> None:
    """Another one on the same pipe negotiates again."""
    with Process() as client:
        for number, revision in enumerate((V2025_11_25, V2024_11_05)):
            params = {
                "protocolVersion": revision.name,
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            }
            id = f"shake {number}"
            cancel = {"requestId": id}
            lines = [
                message("initialize", params, revision=revision, id=id),
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel},
            ]
            client.write("".join(json.dumps(line) + "\n" for line in lines).encode())
            assert client.answer_to(id)["result"]["protocolVersion"] == revision.name
        tools = client.ask("tools/list", revision=V2024_11_05)["result"]["tools"]
        assert not any("annotations" in tool for tool in tools)


def test_lines_after_a_handshake_wait_for_it() -> None:
    with Process("--server", "second") as client:
        shake = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'
        lines = [
            shake % V2025_11_25.name,
            '{"jsonrpc":"2.0","method":"notifications/initialized"}',
            '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"only_here"}}',
        ]
        client.write("\n".join(lines).encode())
        client.close_input()
        answers = {each["id"]: each for each in client.read_rest()}
        assert answers[2]["result"]["content"][0]["text"] == "second"
        assert client.wait() == 0


def test_batches_work_in_the_revision_that_has_them() -> None:
    with Process() as client:
        client.initialize(V2025_03_26)
        client.send([{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in (7, 8)])
        batch: Any = client.read()
        assert [each["id"] for each in batch] == [7, 8]
        client.initialize(V2024_11_05)
        client.send([{"jsonrpc": "2.0", "id": 9, "method": "ping"}])
        assert client.read()["error"]["code"] == -32600


def test_only_messages_reach_stdout(client: Process) -> None:
    """With handlers that print, log and run subprocesses."""
    assert client.call("noise") == "quiet"
    client.close_input()
    assert client.read_rest() == []
    assert client.wait() == 0
    for text in (
        "the tools are loaded",
        "printed",
        "printed past sys.stdout",
        "written to the descriptor",
        "logged",
        "from a child",
        "from C",
    ):
        client.wait_for_noise(text)


def test_output_of_the_settings_does_not_reach_stdout() -> None:
    program = ("env", "-u", "PYTHONUNBUFFERED", *PROGRAM)
    with Process(program=program) as client:
        client.initialize()
        client.wait_for_noise("the settings are read")


def test_handlers_cannot_read_stdin(client: Process) -> None:
    assert client.call("read_input") == repr(("", b"", b""))


def test_a_slow_call_does_not_block_others(client: Process) -> None:
    slow = client.begin_call("look_for_cancellation")
    client.wait_for_noise("working")
    assert client.ask("ping")["result"] == {}
    assert client.call("aecho", text="meanwhile") == "meanwhile"
    client.tell("notifications/cancelled", requestId=slow)
    client.wait_for_noise("cancelled")


@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
def test_a_cancelled_call_is_interrupted_and_not_answered(
    client: Process, revision: Revision
) -> None:
    params = {"name": "wait_for_ever", "arguments": {}}
    client.begin("tools/call", params, revision=revision, id="slow")
    client.wait_for_noise("waiting")
    for _ in range(2):
        client.tell("notifications/cancelled", requestId="slow", reason="no longer wanted")
    client.tell("notifications/cancelled", requestId=999)
    client.tell("notifications/cancelled")
    client.wait_for_noise("no longer waiting")
    assert client.ask("ping", id="p")["result"] == {}
    client.close_input()
    assert client.read_rest() == []


def test_progress_arrives_before_the_response(client: Process) -> None:
    params = {"name": "count", "arguments": {"to": 3}, "_meta": {"progressToken": "t"}}
    seen: list[dict[str, Any]] = []
    client.answer_to(client.begin("tools/call", params), seen.append)
    assert [each["params"]["progress"] for each in seen] == [1, 2, 3]
    assert {each["params"]["progressToken"] for each in seen} == {"t"}


def test_a_question_is_answered_while_its_call_runs(client: Process) -> None:
    asked = []

    def answer(request: dict[str, Any]) -> None:
        asked.append(request["method"])
        content = {"action": "accept", "content": {"sure": True}}
        client.send({"jsonrpc": "2.0", "id": request["id"], "result": content})

    call = client.begin_call("confirm")
    assert "sure" in client.answer_to(call, answer)["result"]["content"][0]["text"]
    assert asked == ["elicitation/create"]


@pytest.mark.parametrize("tool", ["leave", "aleave"])
def test_a_handler_that_raises_system_exit_fails_alone(client: Process, tool: str) -> None:
    told = client.call(tool)
    assert told.startswith("Internal error (reference ")
    client.wait_for_noise("SystemExit: usage")
    assert client.call("echo", text="still here") == "still here"


def test_a_session_lasts_as_long_as_the_process(client: Process) -> None:
    assert client.call("remember", key="a") == "a"
    assert client.call("remember", key="b") == "a b"


# Changes


def test_subscribed_updates_and_list_changes_are_sent(client: Process) -> None:
    """Only for a subscribed URI."""
    client.ask("resources/subscribe", {"uri": "stock://a"})
    assert client.call("change", uri="stock://b") == "told"
    call = client.begin_call("change", uri="stock://a")
    told: list[dict[str, Any]] = []
    client.answer_to(call, told.append)
    if not told:
        told.append(client.read())
    assert told[0]["method"] == "notifications/resources/updated"
    assert told[0]["params"] == {"uri": "stock://a"}

    client.ask("resources/unsubscribe", {"uri": "stock://a"})
    client.call("change", uri="stock://a")
    call = client.begin_call("add_a_tool")
    told.clear()
    client.answer_to(call, told.append)
    if not told:
        told.append(client.read())
    assert [each["method"] for each in told] == ["notifications/tools/list_changed"]


def test_listen_streams_are_independent_and_end_silently() -> None:
    key = "io.modelcontextprotocol/subscriptionId"
    with Process() as client:
        for number, uri in (("one", "stock://1"), (2, "stock://2")):
            wanted = {"notifications": {"resourceSubscriptions": [uri]}}
            client.begin("subscriptions/listen", wanted, revision=V2026_07_28, id=number)
            acknowledged = client.read()
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            assert acknowledged["params"]["_meta"][key] == number
        call = {"name": "change", "arguments": {"uri": "stock://1"}}
        client.begin("tools/call", call, revision=V2026_07_28, id="c1")
        found = {
            each.get("method", each.get("id")): each for each in (client.read(), client.read())
        }
        assert found["notifications/resources/updated"]["params"]["_meta"][key] == "one"
        assert "c1" in found

        client.tell("notifications/cancelled", requestId="one")
        client.ask("tools/call", call, revision=V2026_07_28, id="c2")
        client.ask("ping", revision=V2025_11_25, id="p")
        client.close_input()
        assert client.read_rest() == []
        assert client.wait() == 0


def test_a_listener_leaves_nothing_for_the_next_process() -> None:
    """A reconnecting client has to listen again."""
    uri = "stock://1"
    call = {"name": "change", "arguments": {"uri": uri}}
    with Process() as client:
        wanted = {"notifications": {"resourceSubscriptions": [uri]}}
        client.begin("subscriptions/listen", wanted, revision=V2026_07_28, id="l")
        assert client.read()["method"] == "notifications/subscriptions/acknowledged"
    with Process() as client:
        client.begin("tools/call", call, revision=V2026_07_28, id="c")
        client.begin("ping", revision=V2025_11_25, id="p")
        client.close_input()
        assert {each["id"] for each in client.read_rest()} == {"c", "p"}


def test_listen_streams_get_their_result_on_sigterm() -> None:
    with Process() as client:
        wanted = {"notifications": {"toolsListChanged": True}}
        client.begin("subscriptions/listen", wanted, revision=V2026_07_28, id="l")
        client.read()
        client.process.send_signal(signal.SIGTERM)
        (last,) = client.read_rest()
        assert (last["id"], last["result"]["resultType"]) == ("l", "complete")
        assert client.wait() == 0


# The end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("tool", "begun"),
    [
        ("wait_for_ever", "waiting"),
        ("look_for_cancellation", "working"),
        ("never_look", "hanging"),
        ("refuse_to_end", "refusing"),
    ],
)
def test_a_signal_stops_the_process_whatever_runs(
    client: Process, number: signal.Signals, tool: str, begun: str
) -> None:
    client.begin_call(tool)
    client.wait_for_noise(begun)
    client.process.send_signal(number)
    assert client.read_rest() == []
    assert client.wait() == 0
    if tool == "wait_for_ever":
        client.wait_for_noise("no longer waiting")
    assert "Traceback" not in client.noise


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_a_signal_stops_the_process_during_startup(number: signal.Signals) -> None:
    with Process(extra={"STDIO_HOLD": "1"}) as client:
        client.wait_for_noise("still starting")
        client.process.send_signal(number)
        assert client.wait() == 0
        assert client.read_rest() == []
        assert "Traceback" not in client.noise


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_missing_pipes_are_reported_in_one_line(closed: str) -> None:
    with Process(program=("sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM)) as client:
        assert client.wait() == 1
        client.wait_for_noise("mcp_stdio needs a standard input and output")
        assert "Traceback" not in client.noise


@pytest.mark.parametrize("tool", ["wait_for_ever", "never_look"])
def test_eof_stops_the_process_whatever_runs(client: Process, tool: str) -> None:
    client.begin_call(tool)
    client.begin_call(tool)
    client.close_input()
    assert client.read_rest() == []
    assert client.wait() == 0
    assert "Traceback" not in client.noise
    client.wait_for_noise("The input has ended, and 2 requests are not answered")


def test_requests_before_eof_are_answered() -> None:
    with Process() as client:
        client.initialize()
        sent = [client.begin_call("echo", text=str(n)) for n in range(50)]
        client.close_input()
        assert sorted(each["id"] for each in client.read_rest()) == sent
        assert client.wait() == 0
        assert "not answered" not in client.noise


def test_a_client_that_disconnects_during_a_write(client: Process) -> None:
    client.begin_call("blob", size=900_000)
    client.stdout.close()
    assert client.wait() == 0
    assert "Traceback" not in client.noise
    assert "BrokenPipe" not in client.noise


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    """`kill -9` of the parent, which cannot notify anybody."""
    parent = """
        import subprocess, sys, time
        child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}' + b"\\n")
        child.stdin.flush()
        child.stdout.readline()
        print(child.pid, flush=True)
        time.sleep(1000)
    """
    program = (sys.executable, "-c", textwrap.dedent(parent), *PROGRAM)
    with Process(program=program) as starter:
        line = starter.read_line()
        assert line is not None
        child = int(line)
        starter.process.kill()
        with os.fdopen(os.pidfd_open(child), "rb", buffering=0) as handle:
            assert select.select([handle], [], [], LIMIT_S)[0]


def test_another_server_is_selected_by_name() -> None:
    with Process("--server", "second") as client:
        client.initialize()
        tools = client.ask("tools/list")["result"]["tools"]
        assert [each["name"] for each in tools] == ["only_here"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--server", "third"), "No MCP server is called 'third'"),
        (("--log-level", "loud"), "no log level"),
        (("--user", "a", "--token", "b"), "not both"),
    ],
)
def test_wrong_options_are_explained(arguments: tuple[str, ...], told: str) -> None:
    result = subprocess.run(
        [*PROGRAM, *arguments, "--settings", "tests.support.site.stdio.settings"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert told in result.stderr


def test_pipes_that_do_not_block_are_waited_for() -> None:
    """A client's program may have made them so, for example one that shares its terminal."""
    script = """
        import os, sys
        for each in (0, 1):
            os.set_blocking(each, False)
        os.execv(sys.argv[1], sys.argv[1:])
    """
    program = (sys.executable, "-c", textwrap.dedent(script), *PROGRAM)
    with Process(program=program) as client:
        client.wait_for_noise("the tools are loaded")
        client.initialize()

        assert client.call("blob", size=900_000) == "x" * 900_000
