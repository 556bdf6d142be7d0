"""The endpoints that a token may be for: approved by a user, or listed by an administrator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django_mcp.auth.addresses import canonical_uri
from django_mcp.contrib.oauth.models import ClientEndpoint


class ApprovedResources(list[str]):
    """Resources of an authorization that the consent page has named.

    The type proves it: django-oauth-toolkit takes other lists from the request unchecked.
    """


def listed_resources(application: Any) -> list[str]:
    """Return the endpoints that an administrator lets a client use without asking a user."""
    listed = ClientEndpoint.objects.filter(application=application)
    return list(listed.values_list("resource", flat=True))


def are_among(resources: Iterable[str], allowed: Iterable[str]) -> bool:
    """Return whether all resources are allowed, in any spelling."""
    return _canonical(resources) <= _canonical(allowed)


def _canonical(resources: Iterable[str]) -> set[str]:
    return {canonical_uri(resource) or resource for resource in resources}
