"""The shapes of messages as JSON Schemas, for strict validation.

Members that a revision does not define are allowed and not checked, as in the specifications.
Source: the schemas of the revisions, rewritten in short form.
"""

from __future__ import annotations

from django_mcp.protocol.rules.params import find_params_schema
from django_mcp.protocol.rules.results import find_error_schema, find_result_schema

__all__ = ["find_error_schema", "find_params_schema", "find_result_schema"]
