"""Middleware around the server's response to an exchange, for all transports: `DJANGO_MCP["MIDDLEWARE"]`."""

from __future__ import annotations

import inspect
import re
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import lru_cache
from logging import Filter, LogRecord
from typing import Any, TypeAlias

from django.conf import settings as site_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils import translation
from django.utils.deprecation import MiddlewareMixin
from django.utils.module_loading import import_string
from django.utils.translation.trans_real import LANGUAGE_CODE_MAX_LENGTH, parse_accept_lang_header
from msgspec.structs import replace

from django_mcp.process import reset_on
from django_mcp.protocol.errors import invalid_request
from django_mcp.registry.signatures import is_async_callable, returns_nothing
from django_mcp.server.exchange.exchange import Exchange, Reply, refusal_reply

GetReply: TypeAlias = Callable[[Exchange], Coroutine[Any, Any, Reply]]
"""One step in the processing of an exchange."""


def load_middleware(paths: Iterable[str], get_reply: GetReply) -> GetReply:
    """Return `get_reply` with the middleware named in `paths` around it, the first outermost.

    Raises:
        ImproperlyConfigured: one cannot be imported, or is none.
    """
    all_paths = list(paths)
    for _path, step in _make_steps(all_paths, get_reply):
        get_reply = step
    if all(path.startswith("django_mcp.") for path in all_paths):
        return get_reply
    return _demanding(get_reply)


def find_synchronous(paths: Iterable[str], get_reply: GetReply) -> Iterator[str]:
    """Yield what is wrong with middleware whose step is synchronous, as Django's is: each request fails.

    A synchronous step that returns what is to be awaited says so, by `-> Coroutine[...]` or asgiref's
    `markcoroutinefunction`.

    Raises:
        ImproperlyConfigured: one cannot be imported, or is none.
    """
    for path, step in _make_steps(list(paths), get_reply):
        if not (is_async_callable(step) or _declares_coroutine(step)):
            kind = "function" if inspect.isroutine(step) else type(step).__name__
            yield (
                f"DJANGO_MCP['MIDDLEWARE']: {path} returns a synchronous {kind}, which cannot be awaited, so "
                "that each request fails."
            )


def _declares_coroutine(step: Callable[..., Any]) -> bool:
    called = step if inspect.isroutine(step) else type(step).__call__
    return "Coroutine" in str(getattr(called, "__annotations__", {}).get("return"))


def _make_steps(paths: list[str], get_reply: GetReply) -> Iterator[tuple[str, GetReply]]:
    """Yield each middleware with its step, the last first: each has the one before it inside."""
    for path in reversed(paths):
        try:
            factory = import_string(path)
        except ImportError as error:
            raise ImproperlyConfigured(f"DJANGO_MCP['MIDDLEWARE']: {error}") from error
        if not callable(factory):
            raise ImproperlyConfigured(f"DJANGO_MCP['MIDDLEWARE']: {path} cannot be called.")
        if isinstance(factory, type) and issubclass(factory, MiddlewareMixin):
            raise ImproperlyConfigured(
                f"DJANGO_MCP['MIDDLEWARE']: {path} is middleware of Django, which takes a request. "
                "Middleware of MCP takes an exchange."
            )
        try:
            get_reply = factory(get_reply)
        except TypeError as error:
            raise ImproperlyConfigured(
                f"DJANGO_MCP['MIDDLEWARE']: {path} cannot be called with get_reply: TypeError: {error}"
            ) from error
        if not callable(get_reply):
            raise ImproperlyConfigured(
                f"DJANGO_MCP['MIDDLEWARE']: {path} returned {get_reply!r:.60} in place of a function."
            )
        yield path, get_reply


def _demanding(get_reply: GetReply) -> GetReply:
    """Return a step that raises an error if another one, which is the site's own, gives no reply."""

    async def answer(exchange: Exchange) -> Reply:
        reply: object = await get_reply(exchange)
        if isinstance(reply, Reply):
            return reply
        if isinstance(reply, Coroutine):
            reply.close()
        raise TypeError(
            f"DJANGO_MCP['MIDDLEWARE'] returned a {type(reply).__name__} in place of a Reply. Write "
            "`return await get_reply(exchange)`."
        )

    return answer


class CallMiddleware:
    """The base of the middleware of this package."""

    def __init__(self, get_reply: GetReply) -> None:
        self.get_reply = get_reply


class LocaleMiddleware(CallMiddleware):
    """Activate the language that `Accept-Language` requests.

    It is one of `LANGUAGES`; without the header, or without `USE_I18N`, the language is not changed.
    """

    def __call__(self, exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        headers = exchange.headers
        language = None
        if headers is not None and b"accept-language" in headers.by_name:
            language = find_language(headers.get("accept-language") or "")
        if language is None or language == translation.get_language():
            return self.get_reply(exchange)
        return self._reply_in(language, exchange)

    async def _reply_in(self, language: str, exchange: Exchange) -> Reply:
        with translation.override(language):
            return await self.get_reply(exchange)


def find_language(header: str) -> str | None:
    """Return the site's language that matches an `Accept-Language` header best, or None.

    Source: RFC 9110, 12.5.4. `*` requests no particular language.
    """
    # Django reads no more of it, so no more is kept.
    return _find_language(header[: LANGUAGE_CODE_MAX_LENGTH + 1])


@lru_cache(maxsize=256)
def _find_language(header: str) -> str | None:
    if not site_settings.USE_I18N:
        return None
    for code, _quality in parse_accept_lang_header(header):
        if code == "*":
            return None
        try:
            return translation.get_supported_language_variant(code)
        except LookupError:
            continue
    return None


reset_on(_find_language.cache_clear, settings=("LANGUAGES", "LANGUAGE_CODE", "USE_I18N"))

_request_id: ContextVar[str] = ContextVar("django_mcp_request_id", default="-")
_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


class RequestIDMiddleware(CallMiddleware):
    """Give each exchange an id for the logs: the caller's own (`X-Request-ID`) if it is valid.

    The response has it as well; `RequestIDFilter` adds it to log records.
    """

    async def __call__(self, exchange: Exchange) -> Reply:
        given = exchange.headers.get("x-request-id") if exchange.headers is not None else None
        request_id = given if given and _SANE_ID.fullmatch(given) else uuid.uuid4().hex
        exchange.request_id = request_id
        token = _request_id.set(request_id)
        try:
            reply = await self.get_reply(exchange)
        finally:
            _request_id.reset(token)
        return replace(reply, headers=(*reply.headers, (b"x-request-id", request_id.encode())))


class RequestIDFilter(Filter):
    """Give log records the attribute `request_id`: that of their exchange, or `-`."""

    def filter(self, record: LogRecord) -> bool:
        """Accept every record."""
        record.request_id = _request_id.get()
        return True


class AccessMiddleware(CallMiddleware):
    """Refuse exchanges by a rule of the site, such as where they come from. Subclasses define it."""

    def allows(self, exchange: Exchange) -> bool:
        """Return whether an exchange may go on; if not, the reply is 403.

        It runs on the event loop, so it must not query the database.
        """
        raise NotImplementedError

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if inspect.iscoroutinefunction(cls.allows):
            raise TypeError(f"{cls.__name__}.allows is asynchronous: write it without async.")
        if returns_nothing(cls.allows):
            raise TypeError(
                f"{cls.__name__}.allows never returns a value, and so refuses everybody: let it return True or False."
            )

    async def __call__(self, exchange: Exchange) -> Reply:
        is_allowed: object = self.allows(exchange)
        if inspect.iscoroutine(is_allowed):
            is_allowed.close()
            raise TypeError(
                f"{type(self).__name__}.allows returned a coroutine in place of a bool."
            )
        if not is_allowed:
            return refusal_reply(invalid_request("Access denied"), 403)
        return await self.get_reply(exchange)


class TenantMiddleware(CallMiddleware):
    """Activate a tenant for an exchange. Subclasses define which and how.

    Handlers run within it, those in threads as well: set context variables, not thread locals.
    """

    def enter(self, exchange: Exchange) -> AbstractContextManager[object] | None:
        """Return a context manager that activates the exchange's tenant; None gives 404.

        It runs on the event loop, so it must not query the database.
        """
        raise NotImplementedError

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if returns_nothing(cls.enter):
            raise TypeError(
                f"{cls.__name__}.enter never returns a value, so that there is no tenant: return a context manager."
            )

    def name_tenant(self, exchange: Exchange) -> str:
        """Return what tells the exchange's tenant from others; by default the `Host` of the request.

        The tasks, the questions and the links of a call are unknown where it differs. It is stored with tasks.
        """
        return (exchange.headers.get("host") or "") if exchange.headers is not None else ""

    async def __call__(self, exchange: Exchange) -> Reply:
        tenant = self.enter(exchange)
        if tenant is None:
            return refusal_reply(invalid_request("There is no such tenant"), 404)
        exchange.caller.is_of_tenant = True
        exchange.caller.tenant = self.name_tenant(exchange)
        with tenant:
            return await self.get_reply(exchange)
