"""The views of a `ModelAdmin` that are not Django's, which tools do not run: they may have rules of their own."""

from __future__ import annotations

import inspect
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.admin import UserAdmin

from django_mcp.contrib.modeladmin.access import AdminAccess
from django_mcp.contrib.routes import make_urlconf
from django_mcp.log import logger

_VIEWS = (
    "add_view", "change_view", "changeform_view", "changelist_view", "delete_view", "get_changelist",
    "get_changelist_instance", "render_change_form", "response_add", "response_change", "response_delete",
)  # fmt: skip
"""Methods of the admin's pages, which tools take the place of. Those that end a page may do more than to answer."""

_URLS = {
    "": "changelist_view",
    "add/": "add_view",
    "1/change/": "change_view",
    "1/delete/": "delete_view",
}
"""The URLs of these pages, and the views that Django has there."""


def find_own_views(access: AdminAccess) -> list[str]:
    """Return the names of the views and methods that the admin, its URLs and its site have in place of Django's."""
    admin, site = access.model_admin, access.site
    own = [name for name in _VIEWS if access.overrides(name)]
    for name in ("add_view", "response_add"):
        # The rule of the first is one of Access; the second chooses a page.
        if getattr(type(admin), name) is getattr(UserAdmin, name):
            own.remove(name)
    own += _find_other_views(admin)
    # The default site is a lazy object, whose type is another.
    if getattr(site.admin_view, "__func__", None) is not AdminSite.admin_view:
        own.append(f"admin_view of {site.__class__.__qualname__}")
    return own


def _find_other_views(admin: ModelAdmin[Any]) -> list[str]:
    """Return the names of the views that `get_urls()` has at the URLs of the admin's pages, in place of Django's."""
    others: list[str] = []
    try:
        resolver = make_urlconf(admin.get_urls())
        for url, name in _URLS.items():
            view = inspect.unwrap(resolver.resolve(f"/{url}").func)
            if view != inspect.unwrap(getattr(admin, name)):
                others.append(getattr(view, "__name__", type(view).__name__))
    except Exception:
        # Without one of the pages, or of a package that needs the whole URLconf for this.
        logger.debug("No URLs of %s", admin, exc_info=True)
    return list(dict.fromkeys(others))
