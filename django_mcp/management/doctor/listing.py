"""What a directory of servers would find at a running endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from django_mcp.conf import settings
from django_mcp.directories.addresses import client_address
from django_mcp.directories.rules import find_objections, links_of, title_of
from django_mcp.endpoints.well_known import CHALLENGE_PATH, SERVER_PATH, authenticators_of
from django_mcp.management.doctor.examination import (
    Finding,
    bad,
    good,
    judge,
    judge_metadata,
    read_metadata,
)
from django_mcp.management.doctor.http import Answer, Unreachable, ask
from django_mcp.registry.rules import read_icons
from django_mcp.servers import MCPServer

CALLBACKS = {
    "claude": "https://claude.ai/api/mcp/auth_callback",
    "chatgpt": "https://chatgpt.com/connector/oauth/...",
}
"""Where the clients of a directory want their authorization codes to be sent."""

_OPENID_PATH = "/.well-known/openid-configuration"


def examine_listing(server: MCPServer, url: str, directory: str) -> Iterator[Finding]:
    """Yield what a directory would object to in a server, and in what its endpoint and its links answer.

    Args:
        server: at the endpoint.
        url: of the endpoint.
        directory: one of `DIRECTORIES`.
    """
    title = title_of(directory)
    address = client_address(server, url)
    objections = list(find_objections(server, directory, address))
    for objection in objections:
        yield bad(objection.text, objection.fix)
    if not objections:
        yield good(f"{title}: nothing to object to in the settings and the tools")
    if directory == "registry":
        return
    pages = {
        **{f"{name} {link}": link for name, link in links_of(server).items()},
        **{f"the icon {icon.src}": icon.src for icon in read_icons(server.options.icons)},
    }
    for what, link in pages.items():
        if link.startswith(("https://", "http://")):
            yield _judge_page(f"{title}: {what}", link)
    if any(each.names_authorization_server() for each in authenticators_of(server)):
        yield from _examine_metadata(url, address, directory)
    if directory == "chatgpt" and settings.OPENAI_APPS_CHALLENGE is not None:
        yield _judge_challenge(url, settings.OPENAI_APPS_CHALLENGE)


def _judge_page(what: str, link: str) -> Finding:
    answer = _read(link)
    status = "nothing" if answer is None else str(answer.status)
    return judge(
        answer is not None and answer.status < 400,
        f"{what} answers",
        f"{what} answers {status}",
        "Publish it, or correct the address.",
    )


def _judge_challenge(url: str, token: str) -> Finding:
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}{CHALLENGE_PATH}"
    answer = _read(place)
    return judge(
        answer is not None and (answer.status, answer.body) == (200, token.encode()),
        "ChatGPT: the token that proves the domain is served",
        f"ChatGPT: {place} does not answer with the token of OPENAI_APPS_CHALLENGE",
        "Include django_mcp.urls at the root of the URLconf, let the proxy pass /.well-known/ on, and start the site "
        "with these settings.",
    )


def _examine_metadata(url: str, address: str, directory: str) -> Iterator[Finding]:
    """Yield whether clients of a directory find out where to sign in, and can become known there.

    Args:
        url: of the endpoint that is examined.
        address: of the same endpoint on the internet.
        directory: whose clients they are.
    """
    place, document = read_metadata(url)
    yield judge_metadata(url, address, place, document, reader=f"{title_of(directory)}: ")
    issuers = document.get("authorization_servers")
    for issuer in issuers if isinstance(issuers, list) else ():
        yield _judge_issuer(str(issuer), directory)


def _judge_issuer(issuer: str, directory: str) -> Finding:
    title, parts = title_of(directory), urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = (f"{origin}{SERVER_PATH}{path}", f"{origin}{path}{_OPENID_PATH}")
    answers = [answer for answer in map(_read, places) if answer is not None]
    document = next((each.json() for each in answers if each.status == 200), {})
    if not document:
        return bad(
            f"{title}: there is no metadata of the authorization server {issuer}",
            f"Let {' or '.join(places)} answer to the internet.",
        )
    is_open = (
        document.get("client_id_metadata_document_supported") is True
        or "registration_endpoint" in document
    )
    return judge(
        is_open,
        f"{title}: its clients can become known to {issuer}, with their callback address",
        f"{title}: {issuer} takes neither metadata documents of clients nor registrations",
        f"Turn one of them on, or register a client there by hand whose callback address is {CALLBACKS[directory]}.",
    )


def _read(url: str) -> Answer | None:
    try:
        return ask("GET", url)
    except Unreachable:
        return None
