"""The type of the requests to elicitation pages, for annotations."""

from __future__ import annotations

from django.http import HttpRequest

from django_mcp.pages.views import Elicitation


class ElicitationRequest(HttpRequest):
    """The request that a view decorated with `elicitation_page` gets."""

    elicitation: Elicitation
