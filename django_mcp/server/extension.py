"""Extension: what a protocol extension adds to a server.

A server calls the methods of its extensions. What an extension does not override costs a call nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, TypeVar

from django_mcp.log import logger
from django_mcp.protocol.errors import MISSING_CLIENT_CAPABILITY, Refusal
from django_mcp.protocol.json import JSONObject, decode
from django_mcp.protocol.names import is_extension_id
from django_mcp.protocol.results import ReadResult
from django_mcp.protocol.revisions import Revision
from django_mcp.registry.access import Access, Permission, read_access
from django_mcp.registry.building import Providers
from django_mcp.registry.decorators import Registration
from django_mcp.registry.entries import Entry, ToolEntry
from django_mcp.registry.problems import Problem
from django_mcp.registry.registry import Registry
from django_mcp.server.exchange.call import Call
from django_mcp.server.exchange.exchange import Exchange
from django_mcp.server.streams.stream import PushStream

T = TypeVar("T")

Answer: TypeAlias = Mapping[str, Any] | bytes | Refusal
"""The result of a request: an object, or the whole result encoded by this package. A refusal is its error."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtensionMethod:
    """A method that an extension answers.

    Attributes:
        answer: an asynchronous function of the call that returns the result, a dict. It may raise
            `ProtocolError`. `call.params` are the params as they came, and `call.context` is what a tool
            gets as `ctx`.
        revisions: the names of the revisions that have it; None: all that have extensions.
        mirrored_param: the param that the header `Mcp-Name` repeats, at revisions with such headers.
        needs_declaration: whether a client that has not declared the extension is refused.
    """

    answer: Callable[[Any], Awaitable[Answer]]
    revisions: Collection[str] | None = None
    mirrored_param: str | None = None
    needs_declaration: bool = True

    def exists_at(self, revision: Revision) -> bool:
        """Return whether a revision has this method."""
        if self.revisions is None:
            return revision.has_extensions
        return revision.name in self.revisions


Watch: TypeAlias = Callable[[PushStream], Coroutine[Any, Any, None]]
"""An asynchronous function that runs beside an open stream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listening:
    """What a stream of `subscriptions/listen` does for a key of an extension.

    Attributes:
        acknowledged: the value of the key in the acknowledgement; None: the key is left out.
        watch: an asynchronous function of the stream that runs until the stream ends. It sends
            notifications with `stream.offer(stream.encode(method, params))`. It is cancelled when the
            principal may not use the extension any more, and called again when it may. None: there is
            nothing to do.
    """

    acknowledged: Any = None
    watch: Watch | None = None


_SYNCHRONOUS = (
    "is_offered", "find_settings", "find_capabilities", "find_instructions", "methods", "option_of", "wraps",
    "is_required_by", "is_active", "describe", "describe_problems", "receive", "make_context",
)  # fmt: skip
"""Methods that nobody awaits."""


class NextCall:
    """The rest of a call of a tool, for an extension that wraps it. It runs once."""

    __slots__ = ("_has_run", "_run")

    def __init__(self, run: Callable[[], Coroutine[Any, Any, bytes | Refusal]]) -> None:
        self._run = run
        self._has_run = False

    def __call__(self) -> Coroutine[Any, Any, bytes | Refusal]:
        """Run the tool, and return its result as it is sent, or its error.

        Raises:
            RuntimeError: it has run already.
        """
        if self._has_run:
            raise RuntimeError("A call of a tool goes on once; this extension awaited it twice.")
        self._has_run = True
        return self._run()

    async def result(self) -> JSONObject | Refusal:
        """Run the tool, and return its result as an object, or its error.

        The result may be a question to the client, which has no `content`; return it as it is.
        """
        outcome = await self()
        if isinstance(outcome, Refusal):
            return outcome
        # The question of a call that runs apart from its request is kept elsewhere.
        result: JSONObject = decode(outcome) if outcome else {}
        return result


class Extension:
    """A protocol extension of one server. Override what it adds.

    An engine makes its extensions without arguments, and makes them again when settings change. Their
    methods run on the event loop, except where a docstring says otherwise, and must not block it. A `call` has
    `params`, `meta`, `method`, `context` and `client_extensions`; the rest of it, and of a `server`, is
    what the code of this package uses, and may change in any version.

    Attributes:
        identifier: such as `"com.example/receipts"`: a domain of yours backwards, a slash and a name.
        settings: what the server tells clients of the extension.
        listen_keys: the keys of the filter of `subscriptions/listen` that it understands.
        call_params: if the params of a `tools/call` have one of these keys, the call goes through
            `call_tool`, for any tool and for clients that declared the extension.
        describes: whether it adds to the wire form of entries, see `describe`.
        permission, scopes: what users and tokens need for its methods and listening keys; None: those of
            the server. `()` demands nothing.
        serves_restricted: whether its methods and listening keys are for credentials too that are
            restricted to some entries, such as an API key for some tools.
        uri_schemes: the schemes of URIs that `read_resource` answers, such as `("ui",)`.
        server_name: the name of its server for clients, which is set before a method is called.
    """

    identifier: ClassVar[str] = ""
    settings: Mapping[str, Any] = {}
    listen_keys: ClassVar[Collection[str]] = ()
    call_params: ClassVar[Collection[str]] = ()
    describes: ClassVar[bool] = False
    permission: ClassVar[Permission] = None
    scopes: ClassVar[str | Sequence[str] | None] = None
    serves_restricted: ClassVar[bool] = False
    uri_schemes: ClassVar[Collection[str]] = ()
    server_name: str = ""

    @property
    def source(self) -> str:
        """What it is called in messages."""
        return f"The extension {self.identifier}"

    @cached_property
    def access(self) -> Access:
        """The access rules of its methods and listening keys."""
        return read_access(self.identifier, permission=self.permission, scopes=self.scopes)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.identifier and not is_extension_id(cls.identifier):
            raise TypeError(
                f"{cls.identifier!r} is no name for an extension: use a domain of yours backwards, a slash "
                f"and a name, such as 'com.example/receipts'."
            )
        for name in ("listen_keys", "call_params", "uri_schemes"):
            if isinstance(getattr(cls, name), str):
                raise TypeError(f"{cls.__name__}.{name} is a text: write a tuple of texts.")
        for name, declared in vars(Extension).items():
            given = inspect.getattr_static(cls, name)
            if isinstance(declared, classmethod):
                if not isinstance(given, classmethod | staticmethod):
                    raise TypeError(
                        f"{cls.__name__}.{name} is no class method: write @classmethod."
                    )
            elif name in _SYNCHRONOUS and inspect.iscoroutinefunction(given):
                raise TypeError(
                    f"{cls.__name__}.{name} is asynchronous: write it without async, since nobody awaits it."
                )

    # -- what the server offers

    def is_offered(self, registry: Registry) -> bool:
        """Return whether clients are told of the extension and may use it, by what is registered."""
        return True

    def find_settings(
        self, revision: str, client_info: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Return the settings for a client at a revision; None: the client is not told of the extension.

        `client_info` is what the client says of itself, if it is known.
        """
        return self.settings

    def find_capabilities(
        self, revision: Revision, exchange: Exchange, client_info: Mapping[str, Any] | None
    ) -> JSONObject:
        """Return what is added to the capabilities at a revision."""
        if not revision.has_extensions:
            return {}
        settings = self.find_settings(revision.name, client_info)
        return {} if settings is None else {"extensions": {self.identifier: dict(settings)}}

    def find_instructions(self, call: Call) -> str | None:
        """Return a text that is added to the instructions, for the caller of a handshake or of `server/discover`."""
        return None

    @classmethod
    def register(cls, entries: Registration) -> None:
        """Register the tools, resources and prompts of the extension, as on a server."""

    def methods(self) -> Mapping[str, ExtensionMethod]:
        """Return the methods that clients may call, by name."""
        return {}

    # -- calls of tools

    @classmethod
    def read_option(cls, value: Any) -> Any:
        """Return what is kept of the value that `extensions={identifier: value}` gives an entry.

        Runs when the entry is registered. `extension.option_of(entry)` returns the value later.

        Raises:
            ValueError: the value is wrong; the text says what it may be.
        """
        return value

    @classmethod
    def complete_tool(cls, tool: ToolEntry, providers: Providers) -> ToolEntry:  # noqa: ARG003 - for overrides
        """Return the tool that is registered in place of one with an option for the extension.

        `tool.extensions[cls.identifier]` is what `read_option` returned. `providers` reads the signatures of functions of the server.

        Raises:
            RegistrationError: the option does not go with others; the text names the function and the remedy.
        """
        return tool

    def option_of(self, entry: Entry) -> Any:
        """Return the option of an entry for this extension; None: it has none."""
        return entry.extensions.get(self.identifier)

    def wraps(self, tool: ToolEntry) -> bool:
        """Return whether calls of a tool are passed to `call_tool`."""
        return False

    def is_required_by(self, tool: ToolEntry) -> bool:
        """Return whether only clients with the extension can call a tool."""
        return False

    async def call_tool(
        self, call: Any, tool: ToolEntry, arguments: JSONObject, call_next: NextCall
    ) -> Answer:
        """Answer a call of a tool that the extension wraps.

        `await call_next()` goes on with it. The principal can see the tool, and the arguments fit the
        schema, unless the server does not validate them. The tool's `check=` runs as a part of `call_next`,
        so an answer without it must check the object itself.
        """
        return await call_next()

    def describe_problems(
        self, call: Any, tool: ToolEntry, problems: Sequence[Problem]
    ) -> Mapping[str, Any]:
        """Return fields for `_meta` of the result of a call whose arguments are wrong.

        The extension wraps the tool. The arguments need not have come to `call_tool`.
        """
        return {}

    # -- resources

    async def read_resource(self, call: Any, uri: str) -> ReadResult | Refusal | None:
        """Return what is at a URI of `uri_schemes`; None: nothing that the principal may read.

        It is asked for URIs that no resource of the server has. Whether the principal may read it is up to this method:
        `call.exchange.caller.visible.includes(tool)` says whether they see a tool.
        """
        return None

    # -- lists

    def is_active(self, call: Call) -> bool:
        """Return whether the client of a call has declared the extension."""
        return call.rules.has_extensions and self.identifier in call.client_extensions

    def describe(self, entry: Entry, revision: Revision) -> Mapping[str, Any]:
        """Return fields for an entry in a list, for a client for which the extension is active.

        Those in `_meta` and `annotations` are added to what is there. Lists are cached for all callers, so
        the fields may depend on the entry, the revision and the active language only.
        """
        return {}

    # -- streams

    async def listen(self, call: Any, key: str, wanted: Any) -> Listening | Refusal:
        """Return what a listening stream does for one of `listen_keys`, whose value the client sent.

        The value is not checked, and may have 16 KiB as JSON. What must be given back is taken in `watch`.
        `ProtocolError` refuses the stream.
        """
        return Listening()

    # -- processes

    def receive(self, server: Any, data: JSONObject) -> None:
        """Handle what the extension in another process has sent with `server.tell(identifier, data)`."""

    def tick(self, server: Any) -> Awaitable[None] | None:
        """Do regular work: called every 1.5 s while the process has streams, sessions or calls.

        A coroutine runs beside other work for up to 30 s, and not twice at a time.
        """

    async def shutdown(self, server: Any) -> None:
        """Do what has to be done before the process ends, within 2 s."""

    # -- handlers

    def make_context(self, call: Any) -> Any:
        """Return what handlers get as `ctx.extensions[identifier]`, made when it is first read.

        May run in the thread of a synchronous handler.
        """
        return None


def check_declared(extension: Extension, call: Call) -> Refusal | None:
    """Return the refusal of a client that has not declared an extension, or None."""
    if extension.is_active(call):
        return None
    return Refusal(
        code=MISSING_CLIENT_CAPABILITY,
        message=f"This needs a client that declares {extension.identifier}",
        data={"requiredCapabilities": {"extensions": {extension.identifier: {}}}},
    )


def ask(extension: Extension, name: str, otherwise: T, *given: Any) -> T:
    """Return what a method of an extension returns; if it fails, log that and return `otherwise`."""
    try:
        answer: T = getattr(extension, name)(*given)
    except Exception:
        logger.exception("The extension %s failed in %s()", extension.identifier, name)
        return otherwise
    return answer
