"""The requests that a `ModelAdmin` is given in place of those of a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache, update_wrapper
from types import SimpleNamespace
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth import get_user_model
from django.contrib.messages.constants import DEFAULT_TAGS
from django.http import QueryDict
from django.urls import ResolverMatch
from django.utils.datastructures import MultiValueDict
from django.utils.html import strip_tags

from django_mcp.contrib.generated import object_schema
from django_mcp.contrib.http_calls import build_request, to_texts
from django_mcp.protocol.json import JSONObject

MESSAGES_SCHEMA: JSONObject = {
    "type": "array",
    "items": object_schema({"level": {"type": "string"}, "text": {"type": "string"}}),
    "description": "What the admin tells its user.",
}


class Messages:
    """Keeps the messages that a `ModelAdmin` has for its user, in place of the messages framework."""

    def __init__(self) -> None:
        self._found: list[JSONObject] = []

    def add(self, level: int, message: Any, extra_tags: str = "") -> None:
        """Add a message."""
        text = strip_tags(message) if hasattr(message, "__html__") else str(message)
        self._found.append({"level": DEFAULT_TAGS.get(level, "info"), "text": text})

    def __iter__(self) -> Iterator[JSONObject]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def make_request(
    caller: Any, site: AdminSite, method: str, data: Mapping[str, Any] | None = None
) -> Any:
    """Return a request to the admin.

    Args:
        caller: has the user and the request of the client, if there is one; a context.
        site: the admin site.
        method: the HTTP method.
        data: what the form of a browser would send.
    """
    request = build_request(caller, method, _no_fields())
    request.POST = _to_fields(data) if data else _no_fields()
    request._files = MultiValueDict()
    request.session = {}
    request._messages = Messages()
    request.current_app = site.name
    request.resolver_match = _match(site, site.index, "index")
    return request


@cache
def _no_fields() -> QueryDict:
    return QueryDict()


def _to_fields(data: Mapping[str, Any]) -> QueryDict:
    query_dict = QueryDict(mutable=True)
    for name, value in data.items():
        if value is not None:
            query_dict.setlist(name, to_texts(value))
    query_dict._mutable = False
    return query_dict


def _match(site: AdminSite, view: Any, name: str, **kwargs: str) -> ResolverMatch:
    return ResolverMatch(
        _wrap(view), (), kwargs, url_name=name, app_names=["admin"], namespaces=[site.name]
    )


@lru_cache(maxsize=1000)
def _wrap(view: Any) -> Any:
    """Return a view with the attribute that the admin's own URLs give it."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    owner = view.__self__
    name = "admin_site" if isinstance(owner, AdminSite) else "model_admin"
    setattr(wrapper, name, owner)
    return update_wrapper(wrapper, view)


def lead_to_object(request: Any, model_admin: ModelAdmin[Any], key: Any) -> None:
    """Have a request lead to the page of an object, which rules find in its `resolver_match`."""
    meta = model_admin.opts
    name = f"{meta.app_label}_{meta.model_name}_change"
    request.resolver_match = _match(
        model_admin.admin_site, model_admin.change_view, name, object_id=str(key)
    )


def make_request_of(user: Any, site: AdminSite) -> Any:
    """Return a request of a user, to find out what they may do at all."""
    return make_request(SimpleNamespace(request=None, user=user), site, "GET")


def make_request_of_anybody(site: AdminSite) -> Any:
    """Return a request that may do everything, to describe what a `ModelAdmin` takes."""
    user: Any = get_user_model()()
    user.pk = user.pk or 0  # A queryset can be filtered by it, although it is not saved.
    for name in ("is_active", "is_staff", "is_superuser"):
        with contextlib.suppress(AttributeError):
            setattr(user, name, True)
    return make_request_of(user, site)
