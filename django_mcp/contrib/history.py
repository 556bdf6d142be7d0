"""Packages that keep the history of objects: they learn who writes, as on the site's own pages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from django.apps import apps
from django.conf import settings


def recording_user(
    make_request: Callable[[], Any], model_admin: Any = None
) -> AbstractContextManager[Any]:
    """Have django-simple-history and django-reversion record the user of a request for what is written.

    Args:
        make_request: returns a request of the user; it is called if one of the packages is installed.
        model_admin: what writes; its class may be one of django-reversion.
    """
    stack = ExitStack()
    if _is_installed("simple_history"):
        stack.enter_context(_in_simple_history(make_request()))
    if _is_installed("reversion"):
        stack.enter_context(_in_reversion(make_request(), model_admin))
    return stack


def _is_installed(app: str) -> bool:
    # An installed app is imported, which is known much faster: Django asks all apps for their names.
    return app in sys.modules and apps.is_installed(app)


def recording_caller(request: Any) -> AbstractContextManager[Any]:
    """Do for the call of a view in process what the middleware of these packages does for requests.

    Without its middleware, django-reversion makes no revision for a view, over HTTP as here.

    Args:
        request: has the caller as its user.
    """
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return nullcontext()
    stack = ExitStack()
    if _is_installed("simple_history"):
        stack.enter_context(_in_simple_history(request))
    if "reversion.middleware.RevisionMiddleware" in settings.MIDDLEWARE:
        stack.enter_context(_create_revision(request.user))
    return stack


@contextmanager
def _in_simple_history(request: Any) -> Iterator[None]:
    """Do what the middleware of django-simple-history does."""
    from simple_history.models import HistoricalRecords

    context: Any = HistoricalRecords.context
    before = getattr(context, "request", None)
    context.request = request
    try:
        yield
    finally:
        if before is None:
            del context.request
        else:
            context.request = before


def _in_reversion(request: Any, model_admin: Any) -> AbstractContextManager[Any]:
    """Return a revision, as the views of the admin and the middleware of django-reversion make it."""
    create = getattr(model_admin, "create_revision", None)
    created: AbstractContextManager[Any] = (
        _create_revision(request.user) if create is None else create(request)
    )
    return created


@contextmanager
def _create_revision(user: Any) -> Iterator[None]:
    from reversion import create_revision, set_user

    with create_revision():
        if user.pk is not None:
            set_user(user)
        yield


def note_comment(entry: Any) -> None:
    """Have django-reversion keep what was changed, if it makes a revision.

    Args:
        entry: the `LogEntry` of the change.
    """
    if not _is_installed("reversion"):
        return
    from reversion import get_comment, is_active, set_comment

    if is_active() and not get_comment():
        set_comment(entry.get_change_message())
