"""2024-11-05, the first revision."""

from __future__ import annotations

from django_mcp.protocol.errors import RESOURCE_NOT_FOUND
from django_mcp.protocol.revisions.record import MethodRule, Revision

V2024_11_05 = Revision(
    name="2024-11-05",
    is_stateless=False,
    methods={
        "initialize": MethodRule(),
        "ping": MethodRule(),
        "tools/list": MethodRule(feature="tools"),
        "tools/call": MethodRule(feature="tools"),
        "resources/list": MethodRule(feature="resources"),
        "resources/templates/list": MethodRule(feature="resources"),
        "resources/read": MethodRule(feature="resources"),
        "resources/subscribe": MethodRule(feature="resources.subscribe"),
        "resources/unsubscribe": MethodRule(feature="resources.subscribe"),
        "prompts/list": MethodRule(feature="prompts"),
        "prompts/get": MethodRule(feature="prompts"),
        "completion/complete": MethodRule(feature="completions"),
        "logging/setLevel": MethodRule(feature="logging"),
    },
    accepts_batches=False,
    mirrors_headers=False,
    disconnect_cancels=False,
    logs_by_request=False,
    has_progress_messages=False,
    missing_resource_code=RESOURCE_NOT_FOUND,
    asks=frozenset({"sampling", "roots"}),
    block_types=frozenset({"text", "image", "resource"}),
    lowerings={},
)
