"""Call a tool as a task in a test, answer its questions, and wait for its result."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from django_mcp.extensions.tasks.core.ports import ports_of
from django_mcp.extensions.tasks.core.shapes import (
    EXTENSION,
    FAILED,
    FINAL,
    INPUT_REQUIRED,
    RULES,
    support_of,
)
from django_mcp.inprocess.results import MCPError, to_error
from django_mcp.protocol import meta as keys
from django_mcp.protocol.json import JSONObject
from django_mcp.test.conversation import BaseClient

_FIRST_POLL_S = 0.01
_MAX_POLL_S = 0.2

NO_LOOP = (
    "This task would never end, since the event loop of a synchronous client ends with each call. "
    "Use call_as_task(), which waits for the result, or AsyncMCPClient in an asynchronous test."
)


async def call_as_task(client: BaseClient, tool: str, arguments: JSONObject) -> JSONObject:
    """Return the result of a tool that runs as a task; see `MCPClient.call_as_task`."""
    rules = RULES.get(client.revision)
    if rules is None:
        raise MCPError(f"{client.revision} has no tasks: use {' or '.join(RULES)}.")
    client.task = None
    meta: JSONObject = {}
    if not rules.by_client:
        declared = {**client._capabilities, "extensions": {EXTENSION: {}}}
        meta = {"_meta": {keys.CLIENT_CAPABILITIES: declared}}
    call = {"name": tool, "arguments": arguments, **({"task": {}} if rules.by_client else meta)}
    result = await client._request("tools/call", call)
    created = find_created(result)
    if created is None:
        entry = client.server.registry.tools.get(tool)
        if entry is None or support_of(entry) != "auto":
            raise MCPError(f"Tool {tool} cannot run as a task: register it with task=.")
        return result
    params = {"taskId": created["taskId"], **meta}
    try:
        async with asyncio.timeout(client.task_limit_s):
            if rules.by_client:
                # Questions arrive with the response of this request as well.
                return await client._send_once("tasks/result", params)
            return await _poll(client, params)
    except TimeoutError:
        status = (await client._send_once("tasks/get", params))["status"]
        # A synchronous tool that blocked the event loop may have ended meanwhile.
        with suppress(MCPError):
            await client._send_once("tasks/cancel", params)
        raise TimeoutError(
            f"The task of {tool} was {status} after {client.task_limit_s:g} s, the `task_limit_s` of the client"
        ) from None
    finally:
        client.task = await client._send_once("tasks/get", params)


def check_result(client: BaseClient, method: str, result: JSONObject, *, loop_ends: bool) -> None:
    """Raise `MCPError` for a task that would never end, since its event loop ends with the call."""
    is_task = method == "tools/call" and find_created(result) is not None
    if is_task and loop_ends and ports_of(client.server.engine).runner.is_here:
        raise MCPError(NO_LOOP)


def find_created(result: JSONObject) -> JSONObject | None:
    """Return the task that a result of `tools/call` consists of, in the form of either revision."""
    task = result if result.get("resultType") == "task" else result.get("task")
    return task if isinstance(task, dict) and "taskId" in task else None


async def _poll(client: BaseClient, params: JSONObject) -> JSONObject:
    """Return the result of a task after asking for its state until it is final."""
    interval_s = _FIRST_POLL_S
    while (task := await client._send_once("tasks/get", params))["status"] not in FINAL:
        if task["status"] == INPUT_REQUIRED:
            asked = task["inputRequests"]
            client._note_questions(asked)
            answers = await client._answerer.answer_all(asked)
            await client._send_once("tasks/update", {**params, "inputResponses": answers})
            continue
        await asyncio.sleep(interval_s)
        interval_s = min(2 * interval_s, _MAX_POLL_S)
    if task["status"] == FAILED:
        raise to_error("tools/call", task["error"])
    if "result" not in task:
        raise MCPError(f"The task has no result: it is {task['status']}.")
    result: JSONObject = task["result"]
    return result
