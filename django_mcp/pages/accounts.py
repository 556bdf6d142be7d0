"""A way to be another user on the pages for users: sign out, sign in, and come back."""

from __future__ import annotations

from django.contrib.auth import logout
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseRedirect
from django.views.decorators.csrf import csrf_protect

SWITCH = "switch_account"
"""The name of the button in `django_mcp/page.html`."""


def is_switch(request: HttpRequest) -> bool:
    """Return whether a user wants to be another one."""
    return request.method == "POST" and SWITCH in request.POST


@csrf_protect  # also where the view of the page is exempt
def switch_account(request: HttpRequest) -> HttpResponseRedirect:
    """Sign the user out, and send them to the login, which leads back to this address."""
    logout(request)
    return redirect_to_login(request.get_full_path())
