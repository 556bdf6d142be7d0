"""The record of calls: collected during a call, written in the background."""

from __future__ import annotations

from django_mcp.calls.call import RecordedCall
from django_mcp.calls.recorder import flush_calls

__all__ = ["RecordedCall", "flush_calls"]
