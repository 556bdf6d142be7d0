"""The access log: a record of `django_mcp.access` for each message of a client, and for each run of a task."""

from __future__ import annotations

import logging
import time
from typing import Any

from django_mcp.log import logger
from django_mcp.process import PerProcess
from django_mcp.protocol.sanitize import clean
from django_mcp.server.exchange.caller import key_of
from django_mcp.telemetry.attributes import find_common
from django_mcp.telemetry.later import Later
from django_mcp.telemetry.operation import Observer, Operation

access_logger = logging.getLogger("django_mcp.access")


def _write(fields: dict[str, Any]) -> None:
    access_logger.info(
        "%(method)s %(name)s %(outcome)s in %(duration_ms).1f ms by %(principal)s [%(request)s]",
        fields,
        extra={"mcp": fields},
    )


writing: PerProcess[Later[dict[str, Any]]] = PerProcess(lambda: Later("django-mcp-access", _write))
"""Writes the log: a handler may wait for a disk or a network."""


class AccessLog(Observer):
    """Writes the access log. It has names that the server has, and no arguments, addresses or credentials."""

    _has_told = False

    def end(self, operation: Operation) -> None:
        """See `Observer.end`."""
        if not access_logger.isEnabledFor(logging.INFO):
            if not self._has_told:
                self._has_told = True
                logger.warning(
                    "DJANGO_MCP['ACCESS_LOG'] writes nothing, since the logger 'django_mcp.access' discards records "
                    "at INFO. Give it the level 'INFO' and a handler in LOGGING."
                )
            return
        operation.settle()
        exchange, attributes = operation.exchange, find_common(operation)
        principal = None if exchange is None else key_of(exchange.caller.principal)
        name = attributes.get("gen_ai.tool.name", attributes.get("gen_ai.prompt.name"))
        if name is None:
            name = "-" if operation.entry is None else operation.entry.name
        fields = {
            "server": operation.server,
            "request": (None if exchange is None else exchange.request_id) or "-",
            "principal": clean(principal or "-", 128),
            "method": "task" if operation.is_task else operation.method,
            "name": name,
            "outcome": operation.outcome,
            "code": operation.code,
            "duration_ms": operation.duration_s * 1000,
            "started_s": time.time() - operation.duration_s,
        }
        (writing.current or writing.get()).put(fields)
