"""The page's side of `ctx.elicit_page`: access to the page, and its completion."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from django_mcp.pages.asking import PARAMETER

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse, HttpResponseBase

    from django_mcp.models.calls import PageVisit


class Elicitation:
    """The elicitation that sent a user to a page.

    Attributes:
        request: the browser's. Its user is the one who was asked.
        state: the value that the handler passed to `elicit_page` for the page.
        server: the name of the server that was called.
        entry: the name of the tool, prompt or resource that asks.
        principal_key: the key of the principal that asks: the user and the client; see `Principal.key`.
    """

    def __init__(self, request: HttpRequest, visit: PageVisit) -> None:
        self.request = request
        self.state: Any = visit.state
        self.server = visit.server
        self.entry = visit.entry
        self.principal_key = visit.principal_key
        self._visit = visit

    @property
    def is_done(self) -> bool:
        """Whether `complete()` was called."""
        return self._visit.completed_at is not None

    def complete(self, result: Any = None) -> HttpResponse:
        """Record that the user has done what they were asked to; return a page that says so.

        It counts once, and commits with the transaction it is called in. A second call has no effect.

        Args:
            result: any JSON value, which the handler gets. The client does not see it.
        """
        from django_mcp.pages.visits import complete_visit

        complete_visit(self._visit, result)
        return _show(self.request, "page_done.html", 200)

    async def acomplete(self, result: Any = None) -> HttpResponse:
        """Complete as `complete` does, from an asynchronous view."""
        return await sync_to_async(self.complete)(result)


def get_elicitation(request: HttpRequest, token: str | None, path: str) -> Elicitation:
    """Return the elicitation of a token, for pages that follow the one that the user was sent to.

    An example is the page to which a third party returns the user.

    Args:
        request: from the user who was asked, signed in.
        token: the page's parameter `elicitation`, which the site has kept meanwhile.
        path: of the page that the user was sent to.

    Raises:
        Http404: the token is for another user or page, has expired, or is not valid.
    """
    # Loads `django.db`, which decorating a view must not.
    from django.http import Http404

    from django_mcp.pages.visits import find_visit

    visit = find_visit(token, path, request.user) if request.user.is_authenticated else None
    if visit is None:
        raise Http404
    return Elicitation(request, visit)


def elicitation_page(view: Callable[..., Any]) -> Callable[..., Any]:
    """Make a view a page that `ctx.elicit_page` can send a user to.

    Only the user who was asked sees it, signed in to the site; others get 404, with the name that they
    are signed in with and a button to sign in with another. The view gets
    `request.elicitation`, an `Elicitation`, and calls its `complete()` when the user is done. After
    that the page only says that it is done. It is never cached, nor shown in a frame.

    Source: 2025-11-25 client/elicitation "Safe URL Handling" and "Identifying the User".
    """
    if inspect.iscoroutinefunction(view):

        @wraps(view)
        async def answer_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            response = await sync_to_async(_enter)(request)
            if response is None:
                response = await view(request, *args, **kwargs)
            return _protect(response)

        return answer_async

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        request_entered = _enter(request)
        return _protect(
            view(request, *args, **kwargs) if request_entered is None else request_entered
        )

    return answer


def _enter(request: HttpRequest) -> HttpResponseBase | None:
    """Return the response in place of the page; None: the page."""
    from django.contrib.auth.views import redirect_to_login
    from django.http import Http404

    if not request.user.is_authenticated:
        # For any token, so that the response reveals nothing about it.
        return redirect_to_login(request.get_full_path())
    try:
        elicitation = get_elicitation(request, request.GET.get(PARAMETER), request.path_info)
    except Http404:
        if is_switch(request):
            return switch_account(request)
        return _show(request, "page_none.html", 404)
    request.elicitation = elicitation  # type: ignore[attr-defined]
    return _show(request, "page_done.html", 200) if elicitation.is_done else None


SWITCH = "switch_account"
"""The name of the button in `django_mcp/page.html` of a user who wants to be another one."""


def is_switch(request: HttpRequest) -> bool:
    """Return whether a user wants to be another one."""
    return request.method == "POST" and SWITCH in request.POST


def switch_account(request: HttpRequest) -> HttpResponse:
    """Sign the user out, and send them to the login, which leads back to this address."""
    from django.contrib.auth import logout
    from django.contrib.auth.views import redirect_to_login
    from django.views.decorators.csrf import csrf_protect

    @csrf_protect  # also where the view of the page is exempt
    def sign_out(request: HttpRequest) -> HttpResponse:
        logout(request)
        return redirect_to_login(request.get_full_path())

    return sign_out(request)


def _show(request: HttpRequest, template: str, status: int) -> HttpResponse:
    from django.shortcuts import render

    from django_mcp.pages.policy import protect_public_page

    context = {"account": request.user.get_username()}
    response = render(request, f"django_mcp/{template}", context, status=status)
    protect_public_page(response)
    return response


def _protect(response: HttpResponseBase) -> HttpResponseBase:
    from django.utils.cache import add_never_cache_headers

    from django_mcp.pages.policy import UNFRAMED, set_policy

    add_never_cache_headers(response)
    set_policy(response, UNFRAMED, always=UNFRAMED)
    response.headers.setdefault("X-Frame-Options", "DENY")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    return response
