"""The known clients of a site, played together, and which ways of theirs the site offers.

All clients take a step before any takes the next one, so that the waits for caches of the site are
shared. Nothing of the site is called: a tool is named only to be refused for its scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from django_mcp.contrib.oauth.played_client import Play, PlayedSite, find_missing_way
from django_mcp.contrib.oauth.published_clients import PublishedClient
from django_mcp.management.doctor.examination import Finding, good, note

INTRODUCTION: tuple[tuple[str, Callable[[Play], bool | None]], ...] = (
    ("introduction", Play.introduce),
    ("second registration", Play.register_again),
)

STEPS: tuple[tuple[str, Callable[[Play], bool | None]], ...] = (
    *INTRODUCTION,
    ("consent", Play.ask_for_consent),
    ("token", Play.get_tokens),
    ("keys", Play.read_keys),
    ("call", Play.call),
    ("", Play.let_expire),
    ("expiry", Play.meet_expiry),
    ("refresh", Play.renew),
    ("refresh in two processes", Play.renew_at_once),
    ("step-up", Play.step_up),
    ("", Play.revoke),
    ("revocation", Play.meet_revocation),
)


def play_clients(site: PlayedSite, clients: Sequence[PublishedClient]) -> Iterator[Finding]:
    """Yield one finding for each client: the steps that it passes, or the one at which it fails."""
    plays = [Play(client, site) for client in _find_playable(site, clients)]
    try:
        for name, step in INTRODUCTION if site.person is None else STEPS:
            for play in plays:
                play.attempt(name, step)
    finally:
        for play in plays:
            play.drop()
    for play in plays:
        yield play.tell()
    if site.person is None:
        yield note(
            "Not played without a person: most attacks, consent, tokens, calls and all that follows",
            "Name a user of this site's database with --user.",
        )
    elif site.rows is None:
        yield good("Not played without the site's database: tokens that expire.")


def _find_playable(site: PlayedSite, clients: Iterable[PublishedClient]) -> list[PublishedClient]:
    """Return each client in the ways that the site offers, or in its first one if it offers none."""
    by_name: dict[str, list[PublishedClient]] = {}
    for client in clients:
        by_name.setdefault(client.name, []).append(client)
    playable = []
    for ways in by_name.values():
        offered = [way for way in ways if _is_offered(way, site)]
        playable += offered or ways[:1]
    if site.person is None:
        # A document is read when a person arrives.
        playable = [
            way for way in playable if way.kind == "registration" or not _is_offered(way, site)
        ]
    return playable


def _is_offered(client: PublishedClient, site: PlayedSite) -> bool:
    return find_missing_way(client, site.server) is None
