"""The actions of a view, and how to make an instance of the view for one of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import getclosurevars, unwrap
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from rest_framework import mixins
from rest_framework.decorators import api_view
from rest_framework.generics import GenericAPIView
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from django_mcp.contrib.drf.in_process import base_for
from django_mcp.contrib.drf.reading import complete_queryset
from django_mcp.contrib.view_decorators import find_decorators, find_views, is_made_by_class
from django_mcp.protocol.json import JSONObject

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


@dataclass(frozen=True, kw_only=True)
class ViewAction:
    """One action of a view.

    Attributes:
        name: of the view set's action, or of the method.
        method: of HTTP, in lower case.
        view_class: the class that runs in process.
        is_detail: it is about one object.
        initkwargs: of the view, from `@action` and `as_view()`.
        options: those that `as_view()` was given, if its result names the view. URLs of the view without them do
            not lead to the action.
        action_map: of a view set, the methods' actions; None for other views.
        path: the names of the URL's variables, without those in `kwargs`.
        optional: those of them that only some of its URLs have.
        variables: JSON Schemas of the URL's variables, as far as the URLconf tells them.
        url_path: of a view set's extra action, its part of the URL.
        kwargs: the URL's variables that are the same for each call.
        serializers: what the site says of the data that actions read.
        auth: the site's function in place of the authentication classes; see `viewset_tools`.
        key: what options call it: its name, with the method if another one has the same function.
        is_bound: only `as_view()` says that the method has this function; routers do not know it.
    """

    name: str
    method: str
    view_class: type[Any]
    is_detail: bool
    initkwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    action_map: Mapping[str, str] | None = None
    path: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()
    variables: Mapping[str, JSONObject] = field(default_factory=dict)
    url_path: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    serializers: Mapping[str, Any] = field(default_factory=dict)
    auth: Callable[[Any], Any] | None = None
    key: str
    is_bound: bool = False

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
    def site_function(self) -> Any:
        """The function of the site that serves the action, also below `@api_view`; None: that of the framework does."""
        if not self.is_of_framework:
            return self.function
        if self.function.__module__ == api_view.__module__:
            return getclosurevars(unwrap(self.function)).nonlocals.get("func")
        return None

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
    def words(self) -> list[str]:
        """What the site and its packages call the view and the action."""
        frameworks = ("rest_framework.generics", "rest_framework.mixins", "rest_framework.viewsets")
        classes = [
            cls.__name__
            for cls in self.source.__mro__
            if not cls.__module__.startswith(("builtins", "django.", *frameworks))
        ]
        return [*classes, self.name, self.url_path]

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
        # Where the site bound the function to a URL by hand, what `@action` says does not count there.
        initkwargs = {**getattr(callback, "initkwargs", self.initkwargs), **self.options}
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
        constant ones. A queryset that needs more is that of the model. `callback` is that of `bind`.
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
        complete_queryset(view)
        return view

    def bind_for_schema(self, user: Any = None) -> Any:
        """Return a view to read serializers, filters and pages from."""
        return self.bind_without_call(AnonymousUser() if user is None else user)


@dataclass(frozen=True, kw_only=True)
class ViewClass:
    """A view whose actions become tools.

    Attributes:
        view_class: the class that runs in process.
        common: what all of its actions have.
        given: the actions by method that `as_view()` was given, if its result names the view; None: the class
            does.
        options: that `as_view()` was given beside them.
    """

    view_class: type[Any]
    common: Mapping[str, Any]
    given: Mapping[str, str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> type[Any]:
        """The site's class."""
        source: type[Any] = self.view_class.__mro__[2]
        return source

    def find_actions(self) -> list[ViewAction]:
        """Return the actions that the class tells, or those that `as_view()` was given."""
        view: Any = self.view_class
        if not issubclass(self.source, ViewSetMixin):
            found = list(_method_actions(view, self.common))
        else:
            found = list(_view_set_actions(view, self.common))
        if self.given is not None:
            pairs = list(self.given.items())
            known = {(action.method, action.name): action for action in found}
            initkwargs: dict[str, Any] = {}
            bound = [
                known.get(pair) or self.bind(*pair, self.given, initkwargs, found) for pair in pairs
            ]
            found = [action for action in bound if action is not None]
        return [
            replace(action, initkwargs={**action.initkwargs, **self.options}, options=self.options)
            for action in found
            if action.method in view.http_method_names
        ]

    def bind(
        self,
        method: str,
        name: str,
        action_map: Mapping[str, str],
        initkwargs: Mapping[str, Any],
        known: Collection[ViewAction] = (),
    ) -> ViewAction | None:
        """Return the action that `as_view()` has bound to a method; None if there can be none.

        Args:
            method: of HTTP, in lower case.
            name: of the view set's function.
            action_map: the functions of all methods of the URL.
            initkwargs: of the view.
            known: other actions, whose keys are taken.
        """
        if method not in METHODS or not callable(getattr(self.view_class, name, None)):
            return None
        return ViewAction(
            name=name,
            key=_choose_key(name, method, {action.key for action in known}),
            method=method,
            view_class=self.view_class,
            is_detail=name in STANDARD and STANDARD[name][1],
            initkwargs=initkwargs,
            action_map=dict(action_map),
            is_bound=True,
            **self.common,
        )

    @property
    def further_names(self) -> list[str]:
        """The functions of a view set that `as_view()` may have bound to a method, as it can any."""
        if not issubclass(self.source, ViewSetMixin):
            return []
        own = [cls for cls in self.source.__mro__ if not _is_of_frameworks(cls.__module__)]
        functions = [name for cls in own for name, each in vars(cls).items() if callable(each)]
        return [name for name in dict.fromkeys(functions) if not name.startswith("_")]


def read_view(
    view: Any,
    *,
    serializers: Mapping[str, Any],
    kwargs: Mapping[str, Any],
    auth: Callable[[Any], Any] | None,
) -> ViewClass:
    """Return the view that a class is, or what `as_view()` and `@api_view` return.

    Raises:
        ImproperlyConfigured: it is no view of Django REST framework, or a decorator is around it.
    """
    cls, given, options = view, None, {}
    if not isinstance(view, type):
        layers = next(iter(find_views(view, is_view)), [view])
        made = layers[-1]
        cls, given = getattr(made, "cls", None), getattr(made, "actions", None)
        options = dict(getattr(made, "initkwargs", {}))
        decorators = find_decorators(layers)
        if decorators:
            raise ImproperlyConfigured(
                f"viewset_tools() cannot run the decorator {decorators[0]} of {made.__qualname__}. Decorate the "
                "view's class instead: @method_decorator(..., name='dispatch')."
            )
    if not (isinstance(cls, type) and issubclass(cls, APIView)):
        raise ImproperlyConfigured(
            f"viewset_tools() takes a view of Django REST framework, not {view!r}: its class, a function with "
            "@api_view, or what as_view() returns."
        )
    adapted = type(cls.__name__, (base_for(cls), cls), {"__module__": cls.__module__})
    adapted.__doc__, adapted.__qualname__ = cls.__doc__, cls.__qualname__
    common = {"serializers": serializers, "kwargs": kwargs, "auth": auth}
    return ViewClass(view_class=adapted, common=common, given=given, options=options)


def is_view(layer: Any) -> bool:
    """Return whether something is what `as_view()` of Django REST framework returns."""
    return is_made_by_class(layer) and hasattr(layer, "cls")


def _is_of_frameworks(module: str) -> bool:
    return module.partition(".")[0] in ("builtins", "django", "rest_framework")


def _choose_key(name: str, method: str, taken: Collection[str]) -> str:
    """Return what options call an action: its name, with the method if that is taken."""
    keys = (name, f"{name}_{method}", f"{name}_http_{method}")
    return next((key for key in keys if key not in taken), keys[-1])


def _view_set_actions(view: type[Any], common: Mapping[str, Any]) -> Iterator[ViewAction]:
    for name, (method, is_detail) in STANDARD.items():
        if hasattr(view, name):
            yield ViewAction(
                name=name,
                key=name,
                method=method,
                view_class=view,
                is_detail=is_detail,
                initkwargs={"detail": is_detail},
                action_map={method: name},
                path=_path(view, common["kwargs"], is_detail=is_detail),
                **common,
            )
    extras = view.get_extra_actions()
    # What a function is called is its key, whatever other functions have several methods.
    functions = {*STANDARD, *(name for extra in extras for name in extra.mapping.values())}
    for extra in extras:
        known: set[str] = set()
        for method, name in extra.mapping.items():
            if method not in METHODS:
                continue
            # A method that `@action.mapping` added has a function of its own.
            key = _choose_key(name, method, functions) if name in known else name
            known.add(name)
            yield ViewAction(
                name=name,
                key=key,
                method=method,
                view_class=view,
                is_detail=extra.detail,
                initkwargs={"detail": extra.detail, **extra.kwargs},
                action_map=dict(extra.mapping),
                path=_path(view, common["kwargs"], is_detail=extra.detail, url_path=extra.url_path),
                url_path=extra.url_path,
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
                key=method,
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
