"""django_mcp: serve the Model Context Protocol from a Django project.

Names are imported on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_mcp.auth.permissions import object_permission as object_permission
    from django_mcp.auth.permissions import signed_in as signed_in
    from django_mcp.auth.principal import AuthInfo as AuthInfo
    from django_mcp.context import Context as Context
    from django_mcp.pages.views import elicitation_page as elicitation_page
    from django_mcp.pages.views import get_elicitation as get_elicitation
    from django_mcp.protocol.annotations import Annotations as Annotations
    from django_mcp.protocol.annotations import Icon as Icon
    from django_mcp.protocol.asks import InputRequired as InputRequired
    from django_mcp.protocol.asks import ask_form as ask_form
    from django_mcp.protocol.asks import ask_roots as ask_roots
    from django_mcp.protocol.asks import ask_sampling as ask_sampling
    from django_mcp.protocol.asks import ask_sampling_raw as ask_sampling_raw
    from django_mcp.protocol.asks import ask_url as ask_url
    from django_mcp.protocol.content import Audio as Audio
    from django_mcp.protocol.content import BlobContents as BlobContents
    from django_mcp.protocol.content import EmbeddedResource as EmbeddedResource
    from django_mcp.protocol.content import File as File
    from django_mcp.protocol.content import Image as Image
    from django_mcp.protocol.content import ResourceLink as ResourceLink
    from django_mcp.protocol.content import Text as Text
    from django_mcp.protocol.content import TextContents as TextContents
    from django_mcp.protocol.errors import ProtocolError as ProtocolError
    from django_mcp.protocol.errors import ToolError as ToolError
    from django_mcp.protocol.header_params import McpHeader as McpHeader
    from django_mcp.protocol.levels import LogLevel as LogLevel
    from django_mcp.protocol.results import CacheHint as CacheHint
    from django_mcp.protocol.results import Completion as Completion
    from django_mcp.protocol.results import PromptMessage as PromptMessage
    from django_mcp.protocol.results import PromptResult as PromptResult
    from django_mcp.protocol.results import ReadResult as ReadResult
    from django_mcp.protocol.results import ToolResult as ToolResult
    from django_mcp.protocol.sampling import ModelPreferences as ModelPreferences
    from django_mcp.protocol.sampling import SamplingMessage as SamplingMessage
    from django_mcp.protocol.sampling import SamplingResult as SamplingResult
    from django_mcp.protocol.sampling import SamplingTool as SamplingTool
    from django_mcp.protocol.sampling import ToolUse as ToolUse
    from django_mcp.protocol.sampling import ToolUseResult as ToolUseResult
    from django_mcp.registry.big_integers import BigInt as BigInt
    from django_mcp.registry.problems import ArgumentErrors as ArgumentErrors
    from django_mcp.server.asking.round_trips import Elicited as Elicited
    from django_mcp.server.exchange.call import AskFailed as AskFailed
    from django_mcp.server.exchange.call import CannotAsk as CannotAsk
    from django_mcp.server.exchange.session_data import NoSession as NoSession
    from django_mcp.server.extension import Extension as Extension
    from django_mcp.server.extension import ExtensionMethod as ExtensionMethod
    from django_mcp.server.extension import Listening as Listening
    from django_mcp.server.extension import NextCall as NextCall
    from django_mcp.servers import MCPServer as MCPServer
    from django_mcp.servers import anotify as anotify
    from django_mcp.servers import anotify_list_changed as anotify_list_changed
    from django_mcp.servers import anotify_resource_updated as anotify_resource_updated
    from django_mcp.servers import completion as completion
    from django_mcp.servers import default_server as default_server
    from django_mcp.servers import notify as notify
    from django_mcp.servers import notify_list_changed as notify_list_changed
    from django_mcp.servers import notify_resource_updated as notify_resource_updated
    from django_mcp.servers import prompt as prompt
    from django_mcp.servers import resource as resource
    from django_mcp.servers import tool as tool

_NAMES = {
    "django_mcp.auth.permissions": "object_permission signed_in",
    "django_mcp.auth.principal": "AuthInfo",
    "django_mcp.context": "Context",
    "django_mcp.pages.views": "elicitation_page get_elicitation",
    "django_mcp.protocol.annotations": "Annotations Icon",
    "django_mcp.protocol.asks": (
        "InputRequired ask_form ask_roots ask_sampling ask_sampling_raw ask_url"
    ),
    "django_mcp.protocol.content": (
        "Audio BlobContents EmbeddedResource File Image ResourceLink Text TextContents"
    ),
    "django_mcp.protocol.errors": "ProtocolError ToolError",
    "django_mcp.protocol.header_params": "McpHeader",
    "django_mcp.protocol.levels": "LogLevel",
    "django_mcp.protocol.results": (
        "CacheHint Completion PromptMessage PromptResult ReadResult ToolResult"
    ),
    "django_mcp.protocol.sampling": (
        "ModelPreferences SamplingMessage SamplingResult SamplingTool ToolUse ToolUseResult"
    ),
    "django_mcp.registry.big_integers": "BigInt",
    "django_mcp.registry.problems": "ArgumentErrors",
    "django_mcp.server.asking.round_trips": "Elicited",
    "django_mcp.server.exchange.call": "AskFailed CannotAsk",
    "django_mcp.server.exchange.session_data": "NoSession",
    "django_mcp.server.extension": "Extension ExtensionMethod Listening NextCall",
    "django_mcp.servers": (
        "MCPServer anotify anotify_list_changed anotify_resource_updated completion default_server "
        "notify notify_list_changed notify_resource_updated prompt resource tool"
    ),
}
"""The public names, by the module that has them."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - a list

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
