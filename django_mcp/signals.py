"""Signals of this package: what a site may want to hear of."""

from __future__ import annotations

from django.dispatch import Signal

__all__ = ["tool_called"]

tool_called = Signal()
"""Sent after a tool was called, whatever came of it.

From a thread of its own within about a second, so that receivers may use the database and keep no
client waiting; what one raises is logged. `sender` is the server, `call` a
`django_mcp.calls.Call`. While it has receivers each call is noted for them, recorded or not.
"""
