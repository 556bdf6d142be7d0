"""The calls of the tools of one model, and what is expected of their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Protocol

from django.apps import apps
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_mcp.contrib.models.write_arguments import VERSION_NAMES
from tests.circle.arguments import make_arguments, make_value, takes_keys
from tests.circle.rows import read_row

OWN = ("search", "get", "create", "update", "delete")
PAGING = ("search", "ordering", "limit", "cursor", "count")


class Caller(Protocol):
    """Calls tools, and keeps what goes wrong."""

    refused: dict[str, str]

    def note(self, user: str, tool: str, kind: str, text: str) -> None:
        """Note a fault."""

    def call(self, client: Any, who: str, tool: Mapping[str, Any], arguments: Any) -> Any:
        """Return the structured content of a call, or the text of the error that it ends with."""


@contextmanager
def undone() -> Iterator[None]:
    """Undo in the end what was written."""

    with transaction.atomic():
        yield
        transaction.set_rollback(True)


class OfModel:
    """The walk through the tools of one model, by one user.

    Args:
        walk: gets the faults.
        client: of the user.
        who: the name of the user.
        model: the model.
        tools: by action.
        page: returns how many rows the site's own list shows, and how many queries each further row
            costs there; None, if there is none.
    """

    def __init__(
        self,
        walk: Caller,
        client: Any,
        who: str,
        model: Any,
        tools: Mapping[str, Any],
        page: Callable[[Any], tuple[int, int] | None] | None,
    ) -> None:
        self._walk = walk
        self._client = client
        self._who = who
        self._model = model
        self._tools = tools
        self._page = page
        self._foreign_rows: dict[str, tuple[Any, Any]] = {}
        self._hints = {}
        for field in model._meta.get_fields():
            if field.is_relation and isinstance(field.related_model, type):
                related: Any = field.related_model
                others = related._base_manager.order_by("pk")[:1]
                self._hints[field.name] = next((each.pk for each in others), None)

    def run(self) -> None:
        rows = self._search() if "search" in self._tools else []
        if self._who == "staff":
            rows = rows[:1]
        if "get" in self._tools:
            for one in rows[:3]:
                self._get(one)
        if "create" in self._tools:
            self._create()
        if "delete" in self._tools and rows:
            self._confirm("delete", {self._key("delete"): self._key_of(rows[-1], "delete")})
        for name, tool in self._tools.items():
            if name not in OWN and rows:
                ids = [self._key_of(rows[0], name)]
                self._confirm(name, make_arguments_of_action(tool, ids))

    def _call(self, action: str, arguments: Any) -> Any:
        with undone():
            return self._walk.call(self._client, self._who, self._tools[action], arguments)

    def _note(self, action: str, kind: str, text: str) -> None:
        self._walk.note(self._who, self._tools[action]["name"], kind, text)

    def _key(self, action: str) -> str:
        return str(self._tools[action]["inputSchema"]["required"][0])

    def _key_of(self, row: Mapping[str, Any], action: str) -> Any:
        names = [self._model._meta.pk.name, "pk", "id"]
        key = next((row[name] for name in names if name in row), None)
        return key["pk"] if isinstance(key, dict) else key

    # -- reading

    def _search(self) -> list[Any]:
        schema = self._tools["search"]["inputSchema"]["properties"]
        whole = self._call("search", {"count": True} if "count" in schema else {})
        if isinstance(whole, str):
            self._note("search", "refused", whole)
            return []
        rows = list(whole["results"])
        self._compare(whole)
        if self._who == "root":
            for name, each in schema.items():
                if name not in PAGING:
                    self._filter(name, each, rows)
            for text in ("a", "row 1", '"x') if "search" in schema else ():
                self._call("search", {"search": text})
        orders = [{"ordering": name} for name in schema.get("ordering", {}).get("enum", ())]
        if whole["next_cursor"] is None:
            for order in [{}, *orders] if self._who == "root" else [{}]:
                self._pages(order, len(rows))
        return rows

    def _compare(self, whole: Mapping[str, Any]) -> None:
        """Compare the rows and the queries with those of the site's own list."""
        counted = []
        for limit in (1, 2, 3):
            with CaptureQueriesContext(connection) as queries:
                self._call("search", {"limit": limit})
            counted.append(len(queries))
        shown = None if self._page is None else self._page(self._model)
        if shown is not None and shown[0] != whole.get("count", shown[0]):
            self._note("search", "rows", f"{whole['count']} and {shown[0]} on the page of the site")
        # A relation that the first row has not costs a query when another row has it.
        allowed = max(1, 0 if shown is None else shown[1])
        further = [after - before for before, after in pairwise(counted)]
        # What the first row needs is loaded at once for all that follow, so not each row costs queries.
        if min(further) > 0 and sum(further) > allowed and len(whole["results"]) > 2:
            self._note("search", "queries", f"{counted} queries for 1 to 3 rows, page: {shown}")

    def _filter(self, name: str, schema: Mapping[str, Any], rows: list[Any]) -> None:
        values = [make_value(schema, self._hints.get(name.partition("__")[0]))]
        if "null" in schema.get("type", ()) or None in schema.get("enum", ()):
            values.append(None)
        for value in values:
            self._call("search", {name: value})
        # The values that rows have are values of a filter.
        known = [row[name] for row in rows if row.get(name) not in (None, "", [])]
        # Files are shown by their addresses.
        if (
            known
            and not str(known[0]).startswith("/media/")
            and not isinstance(known[0], dict | list)
        ):
            matching = self._call("search", {name: known[0]})
            if isinstance(matching, str):
                self._note("search", "refused", f"{name}={known[0]!r}: {matching}")
            elif not matching["results"]:
                self._note("search", "rows", f"{name}={known[0]!r} finds none")

    def _pages(self, arguments: dict[str, Any], count: int) -> None:
        """Read all rows in two pages, and expect each once."""
        keys: list[Any] = []
        given = {**arguments, "limit": max(1, count - 1)}
        for _page in range(3):
            page = self._call("search", given)
            if isinstance(page, str):
                self._note("search", "refused", f"{given}: {page}")
                return
            keys += [json.dumps(self._key_of(row, "search")) for row in page["results"]]
            if page["next_cursor"] is None:
                break
            given["cursor"] = page["next_cursor"]
        if len(keys) != count or len(set(keys)) != count:
            self._note("search", "rows", f"pages {arguments} have {keys}, not {count} rows")

    def _get(self, row: Mapping[str, Any]) -> None:
        key = self._key_of(row, "get")
        one = self._call("get", {self._key("get"): key})
        if isinstance(one, str):
            self._note("get", "refused", f"{key}: {one}")
            return
        if "update" in self._tools:
            self._update(key, one)

    # -- writing

    def _update(self, key: Any, one: Mapping[str, Any]) -> None:
        """Send back what was read: everything at once, then nothing."""

        schema = self._tools["update"]["inputSchema"]
        own = {self._key("update"): key}
        if "if_unmodified" in schema["properties"]:
            version = schema["properties"]["if_unmodified"].get("description", "").split(" ")[0]
            own["if_unmodified"] = one.get(version)
        everything = {
            name: to_argument(one[name], each)
            for name, each in schema["properties"].items()
            if name in one
        }
        stored = self._model._base_manager.filter(pk=key)
        for sent in ({**everything, **own}, own):
            with undone():
                before = [read_row(instance) for instance in stored.all()]
                changed = self._walk.call(self._client, self._who, self._tools["update"], sent)
                if isinstance(changed, dict) and "confirmation" in changed:
                    self._note("update", "changed", f"asks though nothing changes: {changed}")
                after = [read_row(instance) for instance in stored.all()]
                if isinstance(changed, dict) and "confirmation" not in changed:
                    self._check_history(key)
            if isinstance(changed, str):
                # Rules about single objects may let others be seen than changed.
                is_missing = self._who == "staff" and "not found" in changed
                if not is_missing and is_valid(stored):
                    self._note("update", "own values", f"{changed} <- {sent}")
            else:
                self._compare_rows(before, after, sent)
                if isinstance(changed, dict) and sent is not own:
                    self._compare_results(one, changed, everything)
        for name, each in schema["properties"].items():
            if "_delete" in each.get("items", {}).get("properties", ()) and name in one:
                self._rows(name, each["items"], own, one[name])

    def _compare_rows(self, before: list[Any], after: list[Any], sent: Any) -> None:
        """Expect that an update has changed nothing."""
        if before == after or not (before and after):
            return
        differences = {
            name: (value, after[0].get(name))
            for name, value in before[0].items()
            # A field may be for who made the last change.
            if after[0].get(name) not in (value, repr(self._who)) and name not in VERSION_NAMES
        }
        if differences:
            self._note("update", "changed", f"{differences} <- {sent}")

    def _compare_results(self, one: Any, changed: Any, names: Any) -> None:
        """Expect that an update shows what it was sent."""
        for name, value in one.items():
            if name in names and changed.get(name) != value and name not in VERSION_NAMES:
                told = f"{name} was {value!r} and is {changed.get(name)!r}"
                self._note("update", "changed", told)

    def _check_history(self, key: Any) -> None:
        """Expect that packages which keep the history know who made the last change."""
        for user, comment in find_last_changes(self._model, key):
            if str(user) != self._who or comment == "":
                self._note("update", "history", f"made by {user}, {comment!r}")

    def _rows(
        self, name: str, schema: Mapping[str, Any], own: Mapping[str, Any], rows: list[Any]
    ) -> None:
        """Add a row to those of an inline, delete one, and name one of another object."""
        key = str(next(iter(rows[0])) if rows else list(schema["properties"])[-2])

        def send(row: Mapping[str, Any]) -> Any:
            with undone():
                arguments = {**own, name: [row]}
                return self._walk.call(self._client, self._who, self._tools["update"], arguments)

        new = make_value({**schema, "type": "object"})
        new.pop(key, None)
        added = send(new)
        if isinstance(added, str):
            self._walk.refused[f"{self._tools['update']['name']} {name}"] = f"{added} <- {new}"
        elif len(added.get(name, ())) != len(rows) + 1 and "confirmation" not in added:
            self._note("update", "rows", f"{name} has {added.get(name)} after one was added")
        if not rows:
            return
        row_key = key_of(rows[0][key])
        left = send({key: row_key, "_delete": True})
        is_asked = isinstance(left, str) or "confirmation" in left
        # An object may be deleted with its row.
        if not is_asked and name in left and len(left[name]) != len(rows) - 1:
            self._note("update", "rows", f"{name} has {left.get(name)} after one was deleted")
        others = self._foreign_rows.setdefault(name, (own, row_key))
        if others[0] != own:
            told = send({key: others[1]})
            if not isinstance(told, str) or "ot found" not in told:
                self._note("update", "rows", f"{name} takes the row of another object: {told}")

    def _create(self) -> None:

        tool = self._tools["create"]
        for is_whole in (False, True):
            arguments = make_arguments(tool["inputSchema"], self._hints, is_whole=is_whole)
            arguments.pop("confirmation", None)
            with undone():
                made = self._walk.call(self._client, self._who, tool, arguments)
                if isinstance(made, str):
                    self._walk.refused[tool["name"]] = f"{made} <- {arguments}"

    def _confirm(self, action: str, arguments: dict[str, Any]) -> None:
        with undone():
            told = self._walk.call(self._client, self._who, self._tools[action], arguments)
            if isinstance(told, dict) and "confirmation" in told:
                again = {**arguments, "confirmation": told["confirmation"]}
                done = self._walk.call(self._client, self._who, self._tools[action], again)
                if isinstance(done, str):
                    self._note(action, "refused", f"after the confirmation: {done}")


def find_others_in_history(before: int, who: str) -> list[str]:
    """Return who else than a user made the entries of django-simple-history since there were so many."""
    entries = _entries()[before:]
    return [
        str(each.history_user) for each in entries if str(each.history_user or "anonymous") != who
    ]


def count_history() -> int:
    """Return how many entries django-simple-history has made."""
    return len(_entries())


def _entries() -> list[Any]:
    models = [model for model in apps.get_models() if hasattr(model, "history_user")]
    entries = [entry for model in models for entry in model._default_manager.all()]
    return sorted(entries, key=lambda entry: entry.history_date)


def find_last_changes(model: Any, key: Any) -> Iterator[tuple[Any, str | None]]:
    """Yield who changed an object last and the comment on it, by each package that keeps that."""
    history: Any = getattr(model, "history", None)
    if apps.is_installed("simple_history") and hasattr(history, "as_of"):
        last = history.filter(**{model._meta.pk.attname: key}).order_by("-history_id")[0]
        yield last.history_user, None
    if apps.is_installed("reversion"):
        from reversion import is_registered
        from reversion.models import Version

        if is_registered(model):
            revision = Version.objects.get_for_object_reference(model, key)[0].revision
            yield revision.user, revision.comment


def is_valid(stored: Any) -> bool:
    """Return whether the site itself takes the object as it is."""

    try:
        for instance in stored.all():
            instance.full_clean()
            for relation in instance._meta.related_objects:
                if relation.one_to_many and not relation.hidden:
                    for row in getattr(instance, relation.get_accessor_name()).all():
                        row.full_clean()
    except Exception:  # noqa: BLE001  (validators of packages raise more than ValidationError)
        return False
    return True


def make_arguments_of_action(tool: Mapping[str, Any], ids: list[Any]) -> dict[str, Any]:
    """Return the arguments of an action of the admin with some objects."""
    return dict.fromkeys(tool["inputSchema"]["required"], ids)


def key_of(value: Any) -> Any:
    """Return the key in what is shown of one: that of an object that is the key of a row."""
    return value["pk"] if isinstance(value, dict) else value


def to_argument(value: Any, schema: Mapping[str, Any], *, is_key: bool = False) -> Any:
    """Return what is shown of a field as its argument: objects by their keys, or tags by their names."""
    is_key = is_key or takes_keys(schema)
    schema = schema.get("anyOf", [schema])[0]
    if isinstance(value, dict) and set(value) == {"pk", "text"}:
        if is_key and schema.get("type") == "string":
            return str(value["pk"])
        is_tag = schema.get("type") == "string" and not isinstance(value["pk"], str)
        return value["text" if is_tag else "pk"]
    if isinstance(value, dict) and "properties" in schema:  # a row of an inline
        known = schema["properties"]
        return {
            name: to_argument(each, known[name]) for name, each in value.items() if name in known
        }
    if isinstance(value, list):
        return [to_argument(each, schema.get("items", {}), is_key=is_key) for each in value]
    return value
