"""django_mcp: serve the Model Context Protocol from a Django project.

Names are imported on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.auth.permissions import object_permission as object_permission
    from django_mcp.auth.principal import AuthInfo as AuthInfo
    from django_mcp.context import Context as Context
    from django_mcp.pages.views import elicitation_page as elicitation_page
    from django_mcp.pages.views import get_elicitation as get_elicitation
    from django_mcp.protocol.asks import ask_form as ask_form
    from django_mcp.protocol.asks import ask_roots as ask_roots
    from django_mcp.protocol.asks import ask_sampling as ask_sampling
    from django_mcp.protocol.asks import ask_sampling_raw as ask_sampling_raw
    from django_mcp.protocol.asks import ask_url as ask_url
    from django_mcp.protocol.content import Annotations as Annotations
    from django_mcp.protocol.content import Audio as Audio
    from django_mcp.protocol.content import BlobContents as BlobContents
    from django_mcp.protocol.content import EmbeddedResource as EmbeddedResource
    from django_mcp.protocol.content import File as File
    from django_mcp.protocol.content import Icon as Icon
    from django_mcp.protocol.content import Image as Image
    from django_mcp.protocol.content import ResourceLink as ResourceLink
    from django_mcp.protocol.content import Text as Text
    from django_mcp.protocol.content import TextContents as TextContents
    from django_mcp.protocol.errors import ProtocolError as ProtocolError
    from django_mcp.protocol.errors import ToolError as ToolError
    from django_mcp.protocol.headers import McpHeader as McpHeader
    from django_mcp.protocol.levels import LogLevel as LogLevel
    from django_mcp.protocol.results import CacheHint as CacheHint
    from django_mcp.protocol.results import Completion as Completion
    from django_mcp.protocol.results import PromptMessage as PromptMessage
    from django_mcp.protocol.results import PromptResult as PromptResult
    from django_mcp.protocol.results import ReadResult as ReadResult
    from django_mcp.protocol.results import ToolResult as ToolResult
    from django_mcp.protocol.sampling import ModelPreferences as ModelPreferences
    from django_mcp.protocol.sampling import SamplingMessage as SamplingMessage
    from django_mcp.protocol.sampling import SamplingTool as SamplingTool
    from django_mcp.protocol.sampling import ToolUse as ToolUse
    from django_mcp.protocol.sampling import ToolUseResult as ToolUseResult
    from django_mcp.protocol.sampling_result import SamplingResult as SamplingResult
    from django_mcp.registry.problems import ArgumentErrors as ArgumentErrors
    from django_mcp.server.asking.answers import Elicited as Elicited
    from django_mcp.server.exchange.rounds import AskFailed as AskFailed
    from django_mcp.server.exchange.rounds import CannotAsk as CannotAsk
    from django_mcp.server.exchange.rounds import InputRequired as InputRequired
    from django_mcp.server.handlers.context import NoSession as NoSession
    from django_mcp.servers import MCPServer as MCPServer
    from django_mcp.servers import anotify as anotify
    from django_mcp.servers import anotify_prompts_list_changed as anotify_prompts_list_changed
    from django_mcp.servers import anotify_resource_updated as anotify_resource_updated
    from django_mcp.servers import anotify_resources_list_changed as anotify_resources_list_changed
    from django_mcp.servers import anotify_tools_list_changed as anotify_tools_list_changed
    from django_mcp.servers import completion as completion
    from django_mcp.servers import default_server as default_server
    from django_mcp.servers import notify as notify
    from django_mcp.servers import notify_prompts_list_changed as notify_prompts_list_changed
    from django_mcp.servers import notify_resource_updated as notify_resource_updated
    from django_mcp.servers import notify_resources_list_changed as notify_resources_list_changed
    from django_mcp.servers import notify_tools_list_changed as notify_tools_list_changed
    from django_mcp.servers import prompt as prompt
    from django_mcp.servers import resource as resource
    from django_mcp.servers import tool as tool

_HOMES = {
    "Annotations": "django_mcp.protocol.content",
    "ArgumentErrors": "django_mcp.registry.problems",
    "AskFailed": "django_mcp.server.exchange.rounds",
    "Audio": "django_mcp.protocol.content",
    "AuthInfo": "django_mcp.auth.principal",
    "BlobContents": "django_mcp.protocol.content",
    "CacheHint": "django_mcp.protocol.results",
    "CannotAsk": "django_mcp.server.exchange.rounds",
    "Completion": "django_mcp.protocol.results",
    "Context": "django_mcp.context",
    "Elicited": "django_mcp.server.asking.answers",
    "EmbeddedResource": "django_mcp.protocol.content",
    "File": "django_mcp.protocol.content",
    "Icon": "django_mcp.protocol.content",
    "Image": "django_mcp.protocol.content",
    "InputRequired": "django_mcp.server.exchange.rounds",
    "LogLevel": "django_mcp.protocol.levels",
    "MCPServer": "django_mcp.servers",
    "McpHeader": "django_mcp.protocol.headers",
    "ModelPreferences": "django_mcp.protocol.sampling",
    "NoSession": "django_mcp.server.handlers.context",
    "PromptMessage": "django_mcp.protocol.results",
    "PromptResult": "django_mcp.protocol.results",
    "ProtocolError": "django_mcp.protocol.errors",
    "ReadResult": "django_mcp.protocol.results",
    "ResourceLink": "django_mcp.protocol.content",
    "SamplingMessage": "django_mcp.protocol.sampling",
    "SamplingResult": "django_mcp.protocol.sampling_result",
    "SamplingTool": "django_mcp.protocol.sampling",
    "Text": "django_mcp.protocol.content",
    "TextContents": "django_mcp.protocol.content",
    "ToolError": "django_mcp.protocol.errors",
    "ToolResult": "django_mcp.protocol.results",
    "ToolUse": "django_mcp.protocol.sampling",
    "ToolUseResult": "django_mcp.protocol.sampling",
    "anotify": "django_mcp.servers",
    "anotify_prompts_list_changed": "django_mcp.servers",
    "anotify_resource_updated": "django_mcp.servers",
    "anotify_resources_list_changed": "django_mcp.servers",
    "anotify_tools_list_changed": "django_mcp.servers",
    "ask_form": "django_mcp.protocol.asks",
    "ask_roots": "django_mcp.protocol.asks",
    "ask_sampling": "django_mcp.protocol.asks",
    "ask_sampling_raw": "django_mcp.protocol.asks",
    "ask_url": "django_mcp.protocol.asks",
    "completion": "django_mcp.servers",
    "default_server": "django_mcp.servers",
    "elicitation_page": "django_mcp.pages.views",
    "get_elicitation": "django_mcp.pages.views",
    "notify": "django_mcp.servers",
    "notify_prompts_list_changed": "django_mcp.servers",
    "notify_resource_updated": "django_mcp.servers",
    "notify_resources_list_changed": "django_mcp.servers",
    "notify_tools_list_changed": "django_mcp.servers",
    "object_permission": "django_mcp.auth.permissions",
    "prompt": "django_mcp.servers",
    "resource": "django_mcp.servers",
    "tool": "django_mcp.servers",
}

__all__ = [
    "Annotations",
    "ArgumentErrors",
    "AskFailed",
    "Audio",
    "AuthInfo",
    "BlobContents",
    "CacheHint",
    "CannotAsk",
    "Completion",
    "Context",
    "Elicited",
    "EmbeddedResource",
    "File",
    "Icon",
    "Image",
    "InputRequired",
    "LogLevel",
    "MCPServer",
    "McpHeader",
    "ModelPreferences",
    "NoSession",
    "PromptMessage",
    "PromptResult",
    "ProtocolError",
    "ReadResult",
    "ResourceLink",
    "SamplingMessage",
    "SamplingResult",
    "SamplingTool",
    "Text",
    "TextContents",
    "ToolError",
    "ToolResult",
    "ToolUse",
    "ToolUseResult",
    "anotify",
    "anotify_prompts_list_changed",
    "anotify_resource_updated",
    "anotify_resources_list_changed",
    "anotify_tools_list_changed",
    "ask_form",
    "ask_roots",
    "ask_sampling",
    "ask_sampling_raw",
    "ask_url",
    "completion",
    "default_server",
    "elicitation_page",
    "get_elicitation",
    "notify",
    "notify_prompts_list_changed",
    "notify_resource_updated",
    "notify_resources_list_changed",
    "notify_tools_list_changed",
    "object_permission",
    "prompt",
    "resource",
    "tool",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
