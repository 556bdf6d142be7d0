"""The calls of the tools of one REST view, and what is expected of their results: what the API itself says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, reverse
from rest_framework.test import APIClient

from tests.circle.arguments import make_arguments, make_value
from tests.circle.tools_of_model import Caller, count_history, find_others_in_history, undone
from tests.circle.views_of_site import SiteView

PAGING = ("page", "per_page", "limit", "offset", "cursor", "ordering", "search")
OFTEN_CHANGED = ("changed_at",)


class OfView:
    """The walk through the tools of one view, by one user.

    Args:
        walk: gets the faults.
        client: of the user.
        who: the name of the user.
        user: the user.
        view: of the site.
        tools: those that the user sees, by action.
        hints: values of arguments by name, such as keys of rows.
        key: that of a row of the view, by its name in the URL.
    """

    def __init__(
        self,
        walk: Caller,
        client: Any,
        who: str,
        user: Any,
        view: SiteView,
        tools: Mapping[str, Any],
        hints: Mapping[str, Any],
        key: Mapping[str, Any],
    ) -> None:
        self._walk, self._client, self._who = walk, client, who
        self._view, self._tools = view, tools
        self._hints, self._new = {**hints, **key}, dict(hints)
        self._api = APIClient()
        if user is not None:
            self._api.force_authenticate(user)

    def run(self) -> None:
        """Call every tool, and compare with the API."""
        self._compare_visible()
        for key in list(self._tools):
            methods = {method for method, _url in self._view.methods_of(key)}
            if "get" in methods:
                self._read(key)
            elif not methods & {"put", "patch", "delete"} or key.startswith("website"):
                self._write(key)
        one = next((key for key in ("retrieve", "get") if key in self._tools), None)
        if one is not None:
            self._change(one)

    def _call(self, key: str, arguments: Any) -> Any:
        return self._walk.call(self._client, self._who, self._tools[key], arguments)

    def _note(self, key: str, kind: str, text: str) -> None:
        self._walk.note(self._who, f"{self._view.prefix}_{key}", kind, text)

    # -- the API

    def _path(self, key: str, method: str, variables: Mapping[str, Any]) -> str | None:
        for known, name in self._view.methods_of(key):
            if known != method:
                continue
            try:
                return reverse(name, kwargs=dict(variables))
            except NoReverseMatch:
                continue
        return None

    def _ask(
        self,
        key: str,
        method: str,
        variables: Mapping[str, Any],
        query: Mapping[str, Any],
        data: Any,
    ) -> Any:
        """Return the response of the API, or None if it has no such URL."""
        path = self._path(key, method, variables)
        if path is None:
            return None
        if query:
            path += (
                f"?{urlencode({name: _text(value) for name, value in query.items()}, doseq=True)}"
            )
        body = {} if data is None else {"data": data, "format": "json"}
        with undone():
            return getattr(self._api, method)(path, **body)

    def _compare_visible(self) -> None:
        """Expect a tool for each action that the API lets the user read, and for no other."""
        for name, actions in self._view.urls:
            key = actions.get("get")
            if key is None:
                continue
            try:
                path = reverse(name, kwargs=self._variables(name))
            except NoReverseMatch:
                continue
            with undone():
                status = self._api.get(path).status_code
            if (status not in (401, 403)) != (key in self._tools) and "auth" not in path:
                self._note(key, "visible", f"the API answers with {status}")

    def _variables(self, name: str) -> dict[str, Any]:
        from django.urls import get_resolver

        possible = get_resolver().reverse_dict.getlist(name)
        for forms, *_rest in possible:
            for _form, names in forms:
                if set(names) <= self._hints.keys():
                    return {each: self._hints[each] for each in names}
        return {}

    # -- reading

    def _split(
        self, key: str, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the variables of the URL, which the tool requires of a reader, and the rest."""
        names = self._names_in_url(key)
        path = {name: value for name, value in arguments.items() if name in names}
        return path, {name: value for name, value in arguments.items() if name not in names}

    def _names_in_url(self, key: str) -> set[str]:
        from django.urls import get_resolver

        urls = {url for _method, url in self._view.methods_of(key)}
        return {
            name
            for url in urls
            for forms, *_rest in get_resolver().reverse_dict.getlist(url)
            for _form, names in forms
            for name in names
        }

    def _read(self, key: str) -> None:
        """Compare what a tool shows with what the API shows, with each filter, order and page."""
        schema = self._tools[key]["inputSchema"].get("properties", {})
        base = make_arguments(self._tools[key]["inputSchema"], self._hints)
        rows = self._compare(key, base)
        if rows is None:
            return
        for name, each in schema.items():
            if name in base or name == "format" or _is_added(each):
                continue
            values = each.get("enum") or [
                make_value(each, self._hints.get(name.partition("_")[0].removesuffix("s")))
            ]
            values = [
                *values,
                *{str(row[name]): row[name] for row in rows if _is_plain(row, name)}.values(),
            ]
            for value in values:
                self._compare(key, {**base, name: value}, must_find=False)
        self._follow(key, base)

    def _compare(self, key: str, arguments: dict[str, Any], *, must_find: bool = True) -> Any:
        """Return the rows that a tool and the API show alike; None if the call is refused."""
        path, query = self._split(key, arguments)
        with CaptureQueriesContext(connection) as of_api:
            response = self._ask(key, "get", path, query, None)
        with undone(), CaptureQueriesContext(connection) as of_tool:
            shown = self._call(key, arguments)
        if response is None:
            self._note(key, "url", f"no URL for {arguments}")
            return None
        is_refused = isinstance(shown, str)
        if is_refused != (response.status_code >= 400):
            told = shown if is_refused else "a result"
            self._note(key, "refused", f"{arguments}: {told}, and the API: {response.status_code}")
        if is_refused or response.status_code >= 400:
            return None
        expected = response.json() if response.content else None
        if not _is_same(shown, expected):
            self._note(key, "rows", f"{arguments}: {shown} and {expected}")
        # The tool reads the user once, and asks for the permissions of its list.
        if len(of_tool) > len(of_api) + 4:
            self._note(key, "queries", f"{len(of_tool)}, and the API {len(of_api)}")
        return _rows_of(shown)

    def _follow(self, key: str, base: dict[str, Any]) -> None:
        """Read all pages, and expect each row once."""
        seen: list[str] = []
        arguments: dict[str, Any] = dict(base)
        page: Any = {}
        for _page in range(10):
            with undone():
                page = self._call(key, arguments)
            if isinstance(page, str) or "results" not in page:
                return
            seen += [str(row) for row in page["results"]]
            if not page.get("next"):
                break
            arguments = {**base, **page["next"]}
        else:
            self._note(key, "rows", "the pages do not end")
        if len(set(seen)) != len(seen) or page.get("count", len(seen)) != len(seen):
            self._note(key, "rows", f"the pages have {len(seen)} rows, of {page.get('count')}")

    # -- writing

    def _write(self, key: str) -> None:
        """Call a tool with the required arguments, then with all; the API has to say the same."""
        tool = self._tools[key]
        in_url = {name: self._hints.get(name) for name in self._names_in_url(key)}
        for is_whole in (False, True):
            hints = {**self._new, **in_url}
            arguments = make_arguments(tool["inputSchema"], hints, is_whole=is_whole)
            self._send(key, arguments)

    def _send(self, key: str, arguments: dict[str, Any]) -> Any:
        """Return what a tool answers, after comparing that with the answer of the API."""
        path, body = self._split(key, arguments)
        body = {name.removeprefix("new_"): value for name, value in body.items()}
        methods = [method for method, _url in self._view.methods_of(key) if method != "get"]
        data = body["items"] if set(body) == {"items"} else body
        responses = [self._ask(key, method, path, {}, data) for method in methods[:1]]
        with undone():
            told = self._call(key, arguments)
        for response in responses:
            if response is None:
                self._note(key, "url", f"no URL for {arguments}")
            elif isinstance(told, str) != (response.status_code >= 400):
                text = f"{told}, and the API: {response.status_code} {response.content[:200]!r}"
                self._note(key, "refused", f"{arguments}: {text}")
        if isinstance(told, str):
            self._walk.refused[self._tools[key]["name"]] = f"{told} <- {arguments}"
        return told

    def _change(self, one: str) -> None:
        """Send back what was read, and delete it."""
        given = make_arguments(self._tools[one]["inputSchema"], self._hints)
        with undone():
            before = self._call(one, given)
        if isinstance(before, str):
            return
        for key in ("update", "put", "partial_update", "patch"):
            if key in self._tools:
                self._send_back(key, one, given, before)
        for key in ("destroy", "delete"):
            if key in self._tools:
                self._delete(key, one, given)

    def _send_back(self, key: str, one: str, given: dict[str, Any], before: dict[str, Any]) -> None:
        schema = self._tools[key]["inputSchema"].get("properties", {})
        own = {
            name: before[name.removeprefix("new_")]
            for name in schema
            if name not in given and name.removeprefix("new_") in before
        }
        missing = set(self._tools[key]["inputSchema"].get("required", ())) - {*own, *given}
        hints = {name: self._hints[name] for name in missing if name in self._hints}
        sent = {**own, **given, **hints}
        told = self._send(key, sent)
        if isinstance(told, str):
            return
        with undone():
            entries = count_history()
            self._call(key, sent)
            if others := find_others_in_history(entries, self._who):
                self._note(key, "history", f"made by {others}")
            after = self._call(one, given)
        for name, value in before.items():
            if name not in OFTEN_CHANGED and name not in missing and after[name] != value:
                self._note(key, "changed", f"{name} was {value!r} and is {after[name]!r}")

    def _delete(self, key: str, one: str, given: dict[str, Any]) -> None:
        told = self._send(key, given)
        if isinstance(told, str):
            return
        with undone():
            self._call(key, given)
            left = self._call(one, given)
        if not isinstance(left, str):
            self._note(key, "rows", "it is still there")


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else value


def _is_plain(row: Any, name: str) -> bool:
    value = row.get(name) if isinstance(row, dict) else None
    return value not in (None, "") and not isinstance(value, dict | list)


def _is_added(schema: Mapping[str, Any]) -> bool:
    """Return whether an argument selects rows of the tool's own list, which the API does not have."""
    added = ("Order: ", "The order is that of the source.")
    is_limit = schema.keys() == {"type", "maximum"}
    return is_limit or str(schema.get("description", "")).startswith(added)


def _rows_of(shown: Any) -> list[Any]:
    rows = shown.get("results", [shown]) if isinstance(shown, dict) else [shown]
    return rows if isinstance(rows, list) else [rows]


def _is_same(shown: Any, expected: Any) -> bool:
    """Return whether a tool shows what the API shows, but for the links to other pages."""
    if isinstance(expected, list):
        return bool(shown.get("results") == expected)
    if not isinstance(expected, dict):
        return bool(shown == {"result": expected})
    links = ("next", "previous")
    return all(
        shown.get(name) == value or (name in links and (shown.get(name) is None) == (value is None))
        for name, value in expected.items()
    )
