"""The type of the requests that pages get, for annotations."""

from __future__ import annotations

from django.http import HttpRequest

from django_mcp.pages.views import Elicitation

__all__ = ["ElicitationRequest"]


class ElicitationRequest(HttpRequest):
    """What a view decorated with `elicitation_page` gets."""

    elicitation: Elicitation
