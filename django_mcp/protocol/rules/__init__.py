"""The shapes of messages as JSON Schemas, for those who want every one of them checked.

What a revision knows nothing of may be there and is not looked at, as the specifications have it.
Source: the schemas of the revisions; written anew and short.
"""

from __future__ import annotations

from django_mcp.protocol.rules.params import find_params_schema
from django_mcp.protocol.rules.results import find_error_schema, find_result_schema

__all__ = ["find_error_schema", "find_params_schema", "find_result_schema"]
