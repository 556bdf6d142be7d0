"""System checks of the cards of servers."""

from __future__ import annotations

from collections.abc import Iterator

from django.core import checks
from django.core.checks import CheckMessage

from django_mcp.checks.declared import check
from django_mcp.directories.addresses import public_url_of
from django_mcp.extensions.cards.site.documents import find_faults, make_card
from django_mcp.servers import all_servers

_SOME_URL = "https://shop.example.com/mcp"
"""Stands for the endpoint, as long as its URL is not known."""


@check(id="django_mcp.cards.W001")
def check_cards() -> Iterator[CheckMessage]:
    """W001: clients would refuse the card of a server."""
    for server in all_servers():
        card = make_card(server, public_url_of(server) or _SOME_URL)
        for fault in () if card is None else find_faults(card):
            yield checks.Warning(
                f"Clients would refuse the card of the server {server.name!r}: {fault}.",
                hint="A card needs a DESCRIPTION and a TITLE of at most 100 characters, one VERSION, and a PUBLIC_URL "
                "that begins with https://.",
                obj=server,
            )
