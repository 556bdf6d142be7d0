"""The actions of a view, and how to make an instance of the view for one of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from rest_framework import authentication, exceptions, mixins, parsers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from django_mcp.contrib.http_calls import settle

STANDARD = {
    "list": ("get", False),
    "create": ("post", False),
    "retrieve": ("get", True),
    "update": ("put", True),
    "partial_update": ("patch", True),
    "destroy": ("delete", True),
}
"""The actions that routers know: their methods, and whether they are about one object."""

METHODS = ("get", "post", "put", "patch", "delete")

_VARIABLE = re.compile(r"\(\?P<(\w+)>|<(?:\w+:)?(\w+)>")


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


class InProcessView:
    """What a view does otherwise when it is called in process; a base of its subclass."""

    mcp_max_results = 0
    mcp_is_truncated = False
    mcp_replaces_auth: Callable[[Any], Any] | None = None

    def get_authenticators(self) -> list[Any]:
        """Return what takes the place of the view's authentication classes."""
        return [_CallAuthentication(self.mcp_replaces_auth)]

    def get_parsers(self) -> list[Any]:
        """Return what takes the place of the view's parsers."""
        return [_CallParser()]

    def paginate_queryset(self, queryset: Any) -> Any:
        """Return a page; without pagination, as many rows as a result may have."""
        paginator: Any = self.paginator  # type: ignore[attr-defined]
        limit = self.mcp_max_results
        if paginator is None:
            rows = list(queryset[: limit + 1])
            self.mcp_is_truncated = len(rows) > limit
            return rows[:limit]
        for name in ("page_size", "max_page_size", "default_limit", "max_limit"):
            if hasattr(paginator, name):
                setattr(paginator, name, min(getattr(paginator, name) or limit, limit))
        return super().paginate_queryset(queryset)  # type: ignore[misc]

    def get_paginated_response(self, data: Any) -> Any:
        """Return the response with a page, or with all rows."""
        if self.paginator is None:  # type: ignore[attr-defined]
            from rest_framework.response import Response

            return Response(data)
        return super().get_paginated_response(data)  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class ViewAction:
    """One action of a view.

    Attributes:
        name: of the view set's action, or of the method.
        method: of HTTP, in lower case.
        view_class: the class that runs in process.
        is_detail: it is about one object.
        initkwargs: of the view, from `@action`.
        action_map: of a view set, the methods' actions; None for other views.
        path: the names of the URL's variables, without those in `kwargs`.
        url_path: of a view set's extra action, its part of the URL.
        kwargs: the URL's variables that are the same for each call.
        serializers: what the site says of the data that actions read.
        auth: the site's function in place of the authentication classes; see `viewset_tools`.
        is_further: another method has the same function, and so the same name.
    """

    name: str
    method: str
    view_class: type[Any]
    is_detail: bool
    initkwargs: Mapping[str, Any] = field(default_factory=dict)
    action_map: Mapping[str, str] | None = None
    path: tuple[str, ...] = ()
    url_path: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    serializers: Mapping[str, Any] = field(default_factory=dict)
    auth: Callable[[Any], Any] | None = None
    is_further: bool = False

    @property
    def source(self) -> type[Any]:
        """The site's class."""
        source: type[Any] = self.view_class.__mro__[2]
        return source

    @property
    def function(self) -> Any:
        """The site's method that serves the action."""
        return getattr(self.view_class, self.name)

    @property
    def is_of_framework(self) -> bool:
        """Whether the method that serves the action is one of Django REST framework."""
        return str(self.function.__module__).startswith("rest_framework.")

    @property
    def standard_name(self) -> str:
        """The name of the standard action that this is, also if a generic view has it as a method."""
        if self.action_map is not None or not issubclass(self.view_class, GenericAPIView):
            return self.name
        if self.method == "get":
            return "retrieve" if self.is_detail else "list"
        return next(name for name, (method, _) in STANDARD.items() if method == self.method)

    @property
    def lacks_queryset(self) -> bool:
        """Whether a call would fail, since the framework's own method reads a queryset that is not there."""
        view: Any = self.view_class
        name = self.standard_name
        if name == "create" or name not in STANDARD or not self.is_of_framework:
            return False
        return (
            getattr(view, "queryset", None) is None
            and view.get_queryset is GenericAPIView.get_queryset
            and (name == "list" or view.get_object is GenericAPIView.get_object)
        )

    @property
    def default_prefix(self) -> str:
        """What tools are named after: the model, else the view."""
        model = self.model
        if model is not None:
            return str(model._meta.model_name)
        name = re.sub(r"(ViewSet|APIView|View)$", "", self.source.__name__)
        return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()

    @property
    def model(self) -> Any:
        """The model of the view's queryset; None if it names none."""
        return getattr(getattr(self.view_class, "queryset", None), "model", None)

    def bind(self, request: Any, kwargs: Mapping[str, Any], callback: Any = None) -> Any:
        """Return a fresh view for a request, as `as_view()` makes it.

        Args:
            request: of the call.
            kwargs: the variables of the URL.
            callback: what `as_view()` returned for the URL; None: the action has none.
        """
        initkwargs = {**self.initkwargs, **getattr(callback, "initkwargs", {})}
        view = self.view_class(**initkwargs)
        view.mcp_replaces_auth = self.auth
        if self.action_map is not None:
            view.action_map = dict(self.action_map)
            for method, action in self.action_map.items():
                setattr(view, method, getattr(view, action))
            view.action = self.name
        view.request, view.args, view.kwargs = request, (), dict(kwargs)
        view.format_kwarg = None
        return view

    def bind_without_call(self, user: Any, callback: Any = None) -> Any:
        """Return a view that serves no call, to ask it for its permissions or serializers.

        It has a user and a method. There is no data, and there are no variables of the URL but the
        constant ones. `callback` is that of `bind`.
        """
        request = HttpRequest()
        request.method = self.method.upper()
        request.user = user
        request.mcp_auth = None  # type: ignore[attr-defined]
        request.mcp_data = {}  # type: ignore[attr-defined]
        view = self.bind(request, self.kwargs, callback)
        view.request = view.initialize_request(request)
        view.request.version, view.request.versioning_scheme = None, None
        view.headers = {}
        view.swagger_fake_view = True
        return view

    def bind_for_schema(self) -> Any:
        """Return a view to read serializers, filters and pages from."""
        return self.bind_without_call(AnonymousUser())


def find_actions(
    view: Any,
    *,
    serializers: Mapping[str, Any],
    kwargs: Mapping[str, Any],
    auth: Callable[[Any], Any] | None,
) -> list[ViewAction]:
    """Return the actions of a view.

    Raises:
        ImproperlyConfigured: it is not a class of a view of Django REST framework.
    """
    if not (isinstance(view, type) and issubclass(view, APIView)):
        raise ImproperlyConfigured(
            f"viewset_tools() takes the class of a view of Django REST framework, not {view!r}. "
            "Of a function, give its class: function.cls."
        )
    adapted = type(view.__name__, (_in_process(view), view), {"__module__": view.__module__})
    adapted.__doc__, adapted.__qualname__ = view.__doc__, view.__qualname__
    served: Any = adapted
    each = _view_set_actions if issubclass(view, ViewSetMixin) else _method_actions
    actions = each(adapted, {"serializers": serializers, "kwargs": kwargs, "auth": auth})
    return [action for action in actions if action.method in served.http_method_names]


def _in_process(view: type[Any]) -> type[Any]:
    """Return `InProcessView`, without pages for views that have none."""
    if hasattr(view, "paginate_queryset"):
        return InProcessView
    names = (
        "get_authenticators",
        "get_parsers",
        "mcp_max_results",
        "mcp_is_truncated",
        "mcp_replaces_auth",
    )
    return type("InProcessView", (), {name: vars(InProcessView)[name] for name in names})


def _view_set_actions(view: type[Any], common: Mapping[str, Any]) -> Iterator[ViewAction]:
    for name, (method, is_detail) in STANDARD.items():
        if hasattr(view, name):
            yield ViewAction(
                name=name,
                method=method,
                view_class=view,
                is_detail=is_detail,
                initkwargs={"detail": is_detail},
                action_map={method: name},
                path=_path(view, common["kwargs"], is_detail=is_detail),
                **common,
            )
    for extra in view.get_extra_actions():
        known: set[str] = set()
        for method, name in extra.mapping.items():
            if method not in METHODS:
                continue
            is_further = name in known
            known.add(name)
            # A method that `@action.mapping` added has a function of its own.
            yield ViewAction(
                name=name,
                method=method,
                view_class=view,
                is_detail=extra.detail,
                initkwargs={"detail": extra.detail, **extra.kwargs},
                action_map=dict(extra.mapping),
                path=_path(view, common["kwargs"], is_detail=extra.detail, url_path=extra.url_path),
                url_path=extra.url_path,
                is_further=is_further,
                **common,
            )


def _method_actions(view: type[Any], common: Mapping[str, Any]) -> Iterator[ViewAction]:
    is_object = issubclass(
        view, (mixins.RetrieveModelMixin, mixins.UpdateModelMixin, mixins.DestroyModelMixin)
    )
    for method in METHODS:
        if hasattr(view, method):
            yield ViewAction(
                name=method,
                method=method,
                view_class=view,
                is_detail=is_object,
                path=_path(view, common["kwargs"], is_detail=is_object),
                **common,
            )


def _path(
    view: type[Any], kwargs: Mapping[str, Any], *, is_detail: bool, url_path: str = ""
) -> tuple[str, ...]:
    names = [first or second for first, second in _VARIABLE.findall(url_path)]
    if is_detail:
        names.insert(
            0, getattr(view, "lookup_url_kwarg", None) or getattr(view, "lookup_field", "pk")
        )
    return tuple(name for name in names if name not in kwargs)
