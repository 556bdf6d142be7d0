"""The Content-Security-Policy of pages, and middleware of a site that sets its own."""

from __future__ import annotations

from typing import Any

from django_mcp.pages.policy import HEADER as POLICY

SITE_POLICY = "default-src 'self' https://cdn.example"


def policy_of(response: Any) -> str:
    """Return the policy as it is sent."""
    return dict(response.items())[POLICY]


class CSPMiddleware:
    """As Django's own and django-csp's: a response that has a policy keeps it."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        response = self.get_response(request)
        response.headers.setdefault(POLICY, SITE_POLICY)
        return response
