"""Actions on rows of a list that ask first, and then take many rows with each request.

No request takes long, whatever the number of rows: the page that follows says how far it is, and
sends the next request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from django_mcp.admin.pages import Page

AT_ONCE = 1000


def in_steps(
    page: Page,
    request: HttpRequest,
    rows: QuerySet[Any],
    title: Any,
    act: Callable[[HttpRequest, list[Any]], int],
    done_text: Any,
    *,
    at_once: int = AT_ONCE,
) -> HttpResponse | None:
    """Ask before an action, then act on some rows with each request.

    Args:
        page: the list.
        request: that of the action, or of the page that this returned.
        rows: what the action is for, and the user may act on.
        title: of the action.
        act: does it to some rows; returns to how many.
        done_text: the message for a number of rows, a lazy text with its plural.
        at_once: rows of one request.

    Returns:
        The page that asks or goes on; None when no more rows are left, which the user is told.
    """
    total, done = (_number(request.POST.get(name)) for name in ("total", "done"))
    if "confirmed" in request.POST:
        batch = list(rows[:at_once])
        done += act(request, batch) if batch else 0
        if len(batch) < at_once or done >= total:
            page.message_user(request, done_text % done)
            return None
    else:
        total = rows.count()
    is_across = request.POST.get("select_across") == "1"
    selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
    return page.show(
        request,
        "steps.html",
        title,
        action=request.POST.get("action"),
        select_across=int(is_across),
        # Django asks for one at least.
        selected=selected[:1] if is_across else selected,
        done=done,
        total=total,
        is_confirmed="confirmed" in request.POST,
        list_url=request.get_full_path(),
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0
