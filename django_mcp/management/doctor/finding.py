"""A finding: the result of one test, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was tried.

    Attributes:
        ok: a client gets past it.
        text: the result.
        fix: what to do when it is not ok.
    """

    ok: bool
    text: str
    fix: str = ""


def good(text: str) -> Finding:
    """Return a finding that is no problem."""
    return Finding(ok=True, text=text)


def bad(text: str, fix: str) -> Finding:
    """Return a finding that is a problem, with its remedy."""
    return Finding(ok=False, text=text, fix=fix)


def judge(condition: object, text: str, problem: str, fix: str) -> Finding:
    """Return a finding that is no problem if the condition holds, else one with its remedy."""
    return good(text) if condition else bad(problem, fix)


Person: TypeAlias = Callable[[str], str]
"""Takes an authorization URL, allows the access there, and returns the URL of the redirect."""

Examination: TypeAlias = Callable[[str], Iterator[Finding]]
"""Takes an access token, and yields what a client that has it finds."""


@runtime_checkable
class OAuthExaminer(Protocol):
    """An installed app that can play the OAuth flow, such as `django_mcp.contrib.oauth`.

    Its `AppConfig` is one by having the method.
    """

    def examine_oauth(
        self, url: str, person: Person | None, examine: Examination | None
    ) -> Iterable[Finding]:
        """Return what a client finds that knows nothing but the endpoint's URL, in its order.

        Args:
            url: of the endpoint.
            person: gives the consent; None: no token is requested.
            examine: what else is tried while the client has a token.
        """
