"""The part of a context that sends the user to a page of the site, and waits for the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mcp.conf import settings
from django_mcp.execution.own_writes import write_in_pool
from django_mcp.execution.threads import run_in_pool
from django_mcp.log import logger
from django_mcp.protocol.asks import Ask, ask_url
from django_mcp.protocol.errors import ToolError
from django_mcp.server.asking.questions import check_asks
from django_mcp.server.asking.round_trips import Elicited
from django_mcp.server.exchange.call import AskFailed, SuspendedForWait
from django_mcp.server.exchange.caller import key_of
from django_mcp.server.handlers.context import Context

if TYPE_CHECKING:
    from django.http import HttpRequest

    from django_mcp.models.calls import PageVisit

NEEDS_USER = gettext_lazy("This needs a user who is signed in.")
"""The text for anonymous callers of what needs a user."""

PARAMETER = "elicitation"
"""The name of the token in a page's URL."""

WAIT_S = 20.0
"""How long a retry of a call waits for its page before it asks once more."""


class PageAsking(Context[Any]):
    """A context that can send the user to a page that requires their login."""

    if TYPE_CHECKING:

        @property
        def user(self) -> Any: ...

        @property
        def request(self) -> HttpRequest | None: ...

    def elicit_page(
        self,
        message: str,
        view: str,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        state: Any = None,
        key: str | None = None,
    ) -> Elicited:
        """Ask the user to do something on a page of this site, and return when they have.

        For what must not pass through the client: secrets, payments, the consent of a third party.
        Only the same user can open the page, after signing in there, and only once; see
        `elicitation_page`. While it is open nothing of this site waits.

        Args:
            message: the question and its reason.
            view: the name of the page's URL, as `reverse()` takes it.
            args, kwargs: of that URL.
            state: any JSON value for the page, which the client does not see.
            key: see `elicit`.

        Returns:
            An `Elicited` whose `data` is what the page passed to `complete()`. It is accepted only
            if that was called, whatever the client answers.

        Raises:
            CannotAsk: the client cannot send its user to pages; uncaught, the caller gets the error.
            ToolError: the user or the site's address is unknown, or too many pages are open.
            AskFailed: the page was not completed in time; uncaught, the model gets the error.
        """
        key = key or self._call.answers.next_key()
        path = self._begin_page(view, args, kwargs)
        visit_id = self.once(f"page {key}", lambda: self._open(path, state))
        elicited: Elicited = self.ask({key: self._question(message, path, visit_id)})[key]
        if not elicited.is_accepted:
            return elicited
        from django_mcp.pages.visits import find_completed

        return self._conclude(key, message, path, visit_id, find_completed(visit_id))

    async def aelicit_page(
        self,
        message: str,
        view: str,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        state: Any = None,
        key: str | None = None,
    ) -> Elicited:
        """Ask as `elicit_page` does, from an asynchronous handler."""
        key = key or self._call.answers.next_key()
        path = self._begin_page(view, args, kwargs)
        visit_id: str = await self.aonce(
            f"page {key}", lambda: write_in_pool(partial(self._open, path, state))
        )
        elicited: Elicited = self.ask({key: self._question(message, path, visit_id)})[key]
        if not elicited.is_accepted:
            return elicited
        from django_mcp.pages.visits import find_completed

        completed = await run_in_pool(partial(find_completed, visit_id))
        return self._conclude(key, message, path, visit_id, completed)

    def _begin_page(self, view: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> str:
        """Return the path of a page, after all checks that could prevent asking."""
        from django.urls import reverse

        path = reverse(view, args=args or None, kwargs=dict(kwargs or {}) or None)
        # Before anything is written: check the client and the user.
        check_asks(self._call, {"": ask_url("", self._origin() + path)}, may_be_told=False)
        if self.user.is_anonymous or self.user.pk is None:
            raise ToolError(str(NEEDS_USER))
        return path

    def _origin(self) -> str:
        request = self.request
        if request is not None:
            from django_mcp.auth.addresses import origin_of

            return origin_of(request)
        if settings.PUBLIC_URL is None:
            logger.error(
                "%s cannot send the user to a page: no request has this site's address. Set "
                "DJANGO_MCP['PUBLIC_URL'].",
                self._call.entry.name if self._call.entry is not None else self.method,
            )
            raise ToolError(
                _("This needs a page of the site, whose address this connection does not know.")
            )
        return settings.PUBLIC_URL

    def _open(self, path: str, state: Any) -> str:
        # Loads `django.db`, which importing a server must not.
        from django.urls import get_script_prefix

        from django_mcp.models.calls import PageVisit
        from django_mcp.pages.visits import TooManyPages, open_visit

        visit: PageVisit = PageVisit(
            user=self.user,
            principal_key=key_of(self.principal) or "",
            server=self._call.server.name,
            entry=self._call.entry.name if self._call.entry is not None else "",
            path=path.removeprefix(get_script_prefix().rstrip("/")),
            session_key=self.session_key or "",
            state=state,
        )
        # How much time the user has.
        seconds = max(self._call.options.state_ttl_s, self._call.options.ask_timeout_s)
        try:
            return open_visit(visit, seconds)
        except TooManyPages:
            raise ToolError(
                _("Too many pages are open: finish some of them, or try later.")
            ) from None

    def _question(self, message: str, path: str, visit_id: str) -> Ask:
        from django_mcp.pages.visits import token_of

        url = f"{self._origin()}{path}?{PARAMETER}={token_of(visit_id)}"
        return replace(ask_url(message, url), elicitation_id=visit_id)

    def _conclude(
        self, key: str, message: str, path: str, visit_id: str, completed: PageVisit | None
    ) -> Elicited:
        """Return the result of a visit that the user agreed to, or continue waiting for it.

        Source: 2026-07-28 client/elicitation "URL Mode": accepting means consent, no more.
        """
        if completed is not None:
            return Elicited(action="accept", data=completed.result)
        may_ask_again = self._call.unwinds_to_ask
        if key not in self._call.answers.waited:
            from django_mcp.pages.visits import wait_until_done

            seconds = WAIT_S if may_ask_again else self._call.options.ask_timeout_s
            raise SuspendedForWait(key, partial(wait_until_done, visit_id, seconds))
        if not may_ask_again:
            raise AskFailed(_("The user did not finish the page in time."))
        del self._call.answers.known[key]
        self.ask({key: self._question(message, path, visit_id)})
        raise AssertionError("asking leaves the handler")
