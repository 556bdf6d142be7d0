"""What a view of Django REST framework does otherwise when it is called in process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rest_framework import authentication, exceptions, pagination, parsers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from django_mcp.contrib.http_calls import settle
from django_mcp.contrib.lists import Window


class _CallAuthentication(authentication.BaseAuthentication):  # type: ignore[misc]
    """The user whom the MCP server has authenticated, or whom the site's function returns for them."""

    def __init__(self, auth: Callable[[Any], Any] | None) -> None:
        self._auth = auth

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        user = request._request.user
        if self._auth is not None:
            user = settle(self._auth(request._request))
            if not user:
                raise exceptions.NotAuthenticated
        return (user, request._request.mcp_auth) if user.is_authenticated else None


class _CallParser(parsers.BaseParser):  # type: ignore[misc]
    """The arguments of a call, which are parsed already."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return parser_context["request"]._request.mcp_data


class _AllRows(pagination.BasePagination):  # type: ignore[misc]
    """The page of a view without pages: the rows that the call selects."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        """Return the rows that the call gets."""
        window: Window | None = self._view.mcp_window
        return list(queryset) if window is None else window.take(queryset)

    def get_paginated_response(self, data: Any) -> Response:
        """Return the rows alone."""
        return Response(data)


class InProcessView:
    """What a view does otherwise when it is called in process; a base of its subclass."""

    mcp_max_results = 0
    mcp_window: Window | None = None
    mcp_replaces_auth: Callable[[Any], Any] | None = None
    _mcp_all_rows: _AllRows | None = None

    def get_authenticators(self) -> list[Any]:
        """Return what takes the place of the view's authentication classes."""
        return [_CallAuthentication(self.mcp_replaces_auth)]

    def get_parsers(self) -> list[Any]:
        """Return what takes the place of the view's parsers."""
        return [_CallParser()]

    @property
    def paginator(self) -> Any:
        """What makes pages; of a view that has none, a single page of all rows."""
        own: Any = super().paginator  # type: ignore[misc]
        if own is None:
            if self._mcp_all_rows is None:
                self._mcp_all_rows = _AllRows(self)
            return self._mcp_all_rows
        limit = self.mcp_max_results
        for name in ("page_size", "max_page_size", "default_limit", "max_limit"):
            if limit and hasattr(own, name):
                with suppress(AttributeError):  # a property of the site
                    setattr(own, name, min(getattr(own, name) or limit, limit))
        return own


def base_for(view: type[Any]) -> type[Any]:
    """Return `InProcessView`, without pages for views that have none."""
    if issubclass(view, GenericAPIView):
        return InProcessView
    names = (
        "get_authenticators",
        "get_parsers",
        "mcp_max_results",
        "mcp_window",
        "mcp_replaces_auth",
    )
    return type("InProcessView", (), {name: vars(InProcessView)[name] for name in names})
