"""The requests that a `ModelAdmin` is given in place of those of a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache, update_wrapper
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin, urlsplit

from django.conf import settings
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.messages.constants import DEFAULT_TAGS
from django.core.exceptions import DisallowedHost
from django.http import QueryDict
from django.urls import (
    NoReverseMatch,
    Resolver404,
    ResolverMatch,
    get_script_prefix,
    get_urlconf,
    resolve,
    reverse,
)
from django.utils.datastructures import MultiValueDict
from django.utils.html import strip_tags
from django.utils.translation import get_language

from django_mcp.contrib.http_calls import build_request, to_texts
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.object_schemas import object_schema

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
    """Return a request to the first page of the admin.

    Args:
        caller: has the user and the request of the client, if there is one; a context.
        site: the admin site.
        method: the HTTP method.
        data: what the form of a browser would send.
    """
    request = make_request_for_page(caller, site, method, data)
    _lead(request, _find_place(site, "index", *_surroundings()))
    return request


def make_request_for_page(
    caller: Any, site: AdminSite, method: str, data: Mapping[str, Any] | None = None
) -> Any:
    """Return the request of `make_request` for `lead_to_page`, which is called next."""
    request = build_request(caller, method, _no_fields())
    request.POST = _to_fields(data) if data else _no_fields()
    request._files = MultiValueDict()
    request.session = {}
    request._messages = Messages()
    request.current_app = site.name
    request.resolver_match = _match_index(site)
    return request


@lru_cache(maxsize=100)
def _match_index(site: AdminSite) -> ResolverMatch:
    return _match(site, site.index, "index")


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


def add_fields(request: Any, data: MultiValueDict[str, Any]) -> None:
    """Add to a request what else the form of a browser would send, such as the rows of inlines."""
    fields = request.POST.copy()
    for name, values in data.lists():
        fields.setlist(name, to_texts([value for value in values if value is not None]))
    fields._mutable = False
    request.POST = fields


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


def lead_to_page(request: Any, model_admin: ModelAdmin[Any], page: str, key: Any = None) -> None:
    """Have a request lead to a page of a `ModelAdmin`, as rules find it in its path and its `resolver_match`.

    Args:
        request: of the admin.
        model_admin: has the page.
        page: `changelist`, `add`, `change` or `delete`.
        key: of the object on the page, if it is one of an object.
    """
    meta, site = model_admin.opts, model_admin.admin_site
    name = f"{meta.app_label}_{meta.model_name}_{page}"
    surroundings = _surroundings()
    place = _find_place(site, name, *surroundings, has_key=key is not None)
    kwargs = {} if key is None else {"object_id": quote(str(key))}
    if place is None:
        _lead(request, _find_place(site, "index", *surroundings))
        request.resolver_match = _match(site, getattr(model_admin, f"{page}_view"), name, **kwargs)
        return
    if key is None:
        _lead(request, place)
        return
    path, usual = place
    match = ResolverMatch.__new__(ResolverMatch)  # copy.copy() refuses to copy one
    captured = {**usual.kwargs, **kwargs}
    vars(match).update({**vars(usual), "kwargs": captured, "captured_kwargs": captured})
    start, _separator, end = path.rpartition(f"/{_ANY_KEY}/")
    _lead(request, (f"{start}/{kwargs['object_id']}/{end}", match))


def leads_to_list(request: Any, model_admin: ModelAdmin[Any], url: str) -> bool:
    """Return whether a redirect leads to the list of a `ModelAdmin`, or of another admin site for its model.

    Args:
        request: leads to that list.
        model_admin: has it.
        url: where the redirect leads.
    """
    try:
        target = urlsplit(urljoin(request.path, url))
        if target.netloc and target.netloc != request.get_host():
            return False
    except (ValueError, DisallowedHost):
        return False
    if target.path == request.path:
        return True
    urlconf = _surroundings()[0]
    if urlconf is None:
        return False
    try:
        match = resolve(f"/{target.path.removeprefix(get_script_prefix())}", urlconf)
    except Resolver404:
        return False
    meta = model_admin.opts
    name = f"{meta.app_label}_{meta.model_name}_changelist"
    return match.url_name == name and "admin" in match.app_names


_ANY_KEY = "1"


def _surroundings() -> tuple[Any, str, str | None]:
    """Return what else the path of a page depends on."""
    return (
        get_urlconf() or getattr(settings, "ROOT_URLCONF", None),
        get_script_prefix(),
        get_language() if settings.USE_I18N else None,
    )


@lru_cache(maxsize=5000)
def _find_place(
    site: AdminSite,
    name: str,
    urlconf: Any,
    script_prefix: str,
    _language: str | None,
    *,
    has_key: bool = False,
) -> tuple[str, ResolverMatch] | None:
    """Return the path of a page of the admin, and what it resolves to; None, if the site has no such URL."""
    if urlconf is None:
        return None
    args = [_ANY_KEY] if has_key else []
    try:
        path = reverse(f"admin:{name}", urlconf, args, current_app=site.name)
        match = resolve(f"/{path.removeprefix(script_prefix)}", urlconf)
    except (NoReverseMatch, Resolver404):
        return None
    # Where this site has no URLs, Django finds those of another.
    return (path, match) if site.name in match.namespaces else None


def _lead(request: Any, place: tuple[str, ResolverMatch] | None) -> None:
    if place is None:
        return
    request.path, request.resolver_match = place
    prefix = get_script_prefix()
    request.path_info = f"/{request.path.removeprefix(prefix)}"
    request.META["SCRIPT_NAME"] = prefix.removesuffix("/")
    request.META["PATH_INFO"] = request.path_info


def make_request_of(user: Any, site: AdminSite) -> Any:
    """Return a request of a user, to find out what they may do at all."""
    return make_request(SimpleNamespace(request=None, user=user), site, "GET")


def make_request_of_anybody(site: AdminSite) -> Any:
    """Return a request that may do everything, to describe what a `ModelAdmin` takes."""
    return _make_request_of_made_up(site, is_superuser=True)


def make_request_of_nobody(site: AdminSite) -> Any:
    """Return a request of a member of the staff without any permission, to tell what is not for all."""
    request = _make_request_of_made_up(site, is_superuser=False)
    for name in ("_perm_cache", "_user_perm_cache", "_group_perm_cache"):
        setattr(request.user, name, set())  # Django's backend need not look them up
    return request


def _make_request_of_made_up(site: AdminSite, *, is_superuser: bool) -> Any:
    user: Any = get_user_model()()
    user.pk = user.pk or 0  # A queryset can be filtered by it, although it is not saved.
    flags = {"is_active": True, "is_staff": True, "is_superuser": is_superuser}
    for name, value in flags.items():
        with contextlib.suppress(AttributeError):
            setattr(user, name, value)
    # The URLs are not known yet when tools are registered.
    request = make_request_for_page(SimpleNamespace(request=None, user=user), site, "GET")
    # Forms, which take most of the time in which an admin is described.
    request.mcp_made = {}
    return request
