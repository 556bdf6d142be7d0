"""The record of calls: taken note of on the road of a call, written off it."""

from __future__ import annotations

from django_mcp.calls.call import RecordedCall
from django_mcp.calls.writer import flush_calls

__all__ = ["RecordedCall", "flush_calls"]
