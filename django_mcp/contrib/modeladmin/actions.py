"""The actions of the admin's list as tools."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from django.contrib.admin.actions import delete_selected
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import model_format_dict
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from django.utils.functional import lazy
from django.utils.translation import gettext as _

from django_mcp import ArgumentErrors, ToolError
from django_mcp.context import Context
from django_mcp.contrib.modeladmin.access import DELETE, AdminAccess, get_actions
from django_mcp.contrib.modeladmin.deleting import DELETED_SCHEMA, AdminDeleting
from django_mcp.contrib.modeladmin.reading import AdminReading
from django_mcp.contrib.modeladmin.requests import (
    MESSAGES_SCHEMA,
    lead_to_page,
    leads_to_list,
    make_request_for_page,
)
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject, to_pointer
from django_mcp.registry.object_schemas import object_schema
from django_mcp.registry.problems import Problem
from django_mcp.server.asking.confirming import CONFIRMATION, CONFIRMATION_SCHEMA

IDS = "ids"

MAX_TEXT_CHARS = 100_000
"""Of a document that an action answers with."""

_DONE = object_schema(
    {
        "done": {
            "type": "boolean",
            "description": "False if the action may not be finished, because it goes on with another page.",
        },
        "messages": MESSAGES_SCHEMA,
        "redirect_url": {
            "type": "string",
            "description": "Where the admin would go on.",
        },
        "content_type": {"type": "string"},
        "content": {"type": "string", "description": "The document that the action made."},
    },
    required=["done", "messages"],
)


class AdminAction:
    """Runs one action.

    Args:
        access: decides what a user may do.
        reading: has the keys of objects.
        deleting: asks before objects are deleted.
        name: of the action.
        function: of the action.
        description: of the action, as the admin has it.
        max_results: objects of a call at most.

    Attributes:
        argument: the name of the argument with the keys of the objects.
        is_deletion: whether it is Django's own that deletes what is selected.
    """

    def __init__(
        self,
        access: AdminAccess,
        reading: AdminReading,
        deleting: AdminDeleting,
        *,
        name: str,
        function: Any,
        description: Any,
        max_results: int,
    ) -> None:
        self._access = access
        self._admin: Any = access.model_admin
        self._reading = reading
        self._deleting = deleting
        self._name = name
        self._description = description
        self._max_results = max_results
        self._is_warned_of_page = False
        self.argument = IDS
        self.is_deletion = function is delete_selected

    @property
    def description(self) -> Any:
        """The description of the tool, in the active language."""
        return _describe(self._description, self._admin)

    @property
    def input(self) -> JSONObject:
        """The input schema of the tool."""
        keys = {**self.keys, "description": f"{self._reading.key} of each object."}
        further = {CONFIRMATION: CONFIRMATION_SCHEMA} if self.is_deletion else {}
        return object_schema({self.argument: keys, **further}, required=[self.argument])

    @property
    def keys(self) -> JSONObject:
        """The schema of the keys of the objects."""
        return {
            "type": "array",
            "items": self._reading.key_schema,
            "minItems": 1,
            "maxItems": self._max_results,
            "uniqueItems": True,
        }

    @property
    def output(self) -> JSONObject:
        """The output schema of the tool."""
        return DELETED_SCHEMA if self.is_deletion else _DONE

    def run(self, ctx: Context, arguments: dict[str, Any]) -> JSONObject:
        """Run the action with some objects.

        Raises:
            ArgumentErrors: there are not all of the objects, or the user may not.
            ToolError: the action answers with a page.
        """
        keys = arguments[self.argument]
        sent = {"action": self._name, ACTION_CHECKBOX_NAME: keys}
        if self.is_deletion:
            # The answer to the page that asks. Other actions that ask get none: no user has agreed.
            sent["post"] = "yes"
        request = make_request_for_page(ctx, self._access.site, "POST", sent)
        lead_to_page(request, self._admin, "changelist")
        rows, objects = self._select(request, keys)
        entry = get_actions(self._admin, request).get(self._name)
        if entry is None:
            raise self._access.missing()
        if not self.is_deletion:
            return self._finish(_read(entry[0](self._admin, request, rows), request), request)
        deletion = self._deleting.describe(request, objects)
        refusal = deletion.ask(ctx, arguments)
        if refusal is not None:
            return refusal
        if not self._deleting.delete_selected(request, rows):
            entry[0](self._admin, request, rows)
        return {**deletion.done(), "messages": list(request._messages)}

    def _finish(self, result: JSONObject, request: Any) -> JSONObject:
        """Return a result that claims no more than is known, if the action goes on with a page of its own."""
        url = result.get("redirect_url")
        if url is None or leads_to_list(request, self._admin, url):
            return result
        if any(message["level"] == "success" for message in result["messages"]):
            # It has acted, and shows what it made.
            return result
        if not self._is_warned_of_page:
            self._is_warned_of_page = True
            logger.warning(
                "The action %s of %s redirects to another page than its list, %s, without a message of success. Its "
                "tool cannot open that page, and says that the action may not be finished. If it is, call "
                "message_user() with messages.SUCCESS; if not, leave it out with actions=",
                self._name,
                type(self._admin).__qualname__,
                url.partition("?")[0],
            )
        told = _(
            "The action goes on with the page of redirect_url, so it may not be finished, and may have done nothing "
            "yet. A person can finish it in the admin."
        )
        messages = [*result["messages"], {"level": "warning", "text": told}]
        return {**result, "done": False, "messages": messages}

    def _select(self, request: Any, keys: list[Any]) -> tuple[QuerySet[Any], list[Any]]:
        """Return the rows with some keys; raises `ArgumentErrors` if the user may not use all."""
        wanted = [self._to_key(key) for key in keys]
        rows = self._access.find_rows(request, self._name)
        rows = rows.filter(pk__in=[key for key in wanted if key is not None])
        objects = {row.pk: row for row in rows}
        kinds = (self._name, DELETE) if self.is_deletion else (self._name,)
        for kind in kinds:
            allowed = self._access.keep_allowed(request, kind, objects.values())
            objects = {instance.pk: instance for instance in allowed}
        missing = [index for index, key in enumerate(wanted) if key not in objects]
        if missing:
            told = _("Not found.")
            raise ArgumentErrors(
                [Problem(to_pointer([self.argument, index]), told) for index in missing]
            )
        return rows, list(objects.values())

    def _to_key(self, key: Any) -> Any:
        try:
            return self._access.to_key(key)
        except ObjectDoesNotExist:
            return None


def _describe_now(description: Any, model_admin: Any) -> str:
    text: str = str(description) % model_format_dict(model_admin.opts)
    return text


_describe = lazy(_describe_now, str)


def _read(response: Any, request: Any) -> JSONObject:
    """Return what an action has answered.

    Raises:
        ToolError: it is a page.
    """
    result: JSONObject = {"done": True, "messages": list(request._messages)}
    if not isinstance(response, HttpResponseBase):
        return result
    if 300 <= response.status_code < 400:
        return {**result, "redirect_url": response.get("Location", "")}
    kind = response.get("Content-Type", "").partition(";")[0].strip().lower()
    is_document = kind == "application/json" or (kind.startswith("text/") and kind != "text/html")
    if response.streaming or not is_document or response.status_code != 200:
        raise ToolError(
            _(
                "The action answers with a page or a file, which cannot be shown here. Nothing was done."
            )
        )
    found: Any = response
    if hasattr(found, "render"):
        found.render()
    content = found.content.decode(found.charset or "utf-8", "replace")
    if len(content) > MAX_TEXT_CHARS:
        raise ToolError(_("The action answers with a document that is too long. Nothing was done."))
    return {**result, "content_type": kind, "content": content}


def find_problem(
    name: str, function: Callable[..., Any], taken: Collection[str]
) -> tuple[str, str] | None:
    """Return why an action does not become a tool, and what to do; None, if it does."""
    if name in taken:
        return "another tool has that name", "Rename the function."
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return (
            "it takes other arguments than the admin, a request and a queryset",
            "Leave it out with actions=, as only a page of its own can run it.",
        )
    except ValueError:
        pass  # of a function without a signature
    return None
