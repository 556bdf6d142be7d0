"""Walk through every tool of a site, as several users, and report what goes wrong.

`python -m tests.circle.walk oscar` prints one fault a line. It knows the tools by what they publish, and
compares them with the admin's own pages and with the tables. `--refused` also prints which creations are
refused, and `--pages` which pages of the admin cannot be compared.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from typing import Any

import jsonschema


class Internal(logging.Handler):
    """Keeps where the last internal error came from."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            error = record.exc_info[1]
            frames = traceback.extract_tb(error.__traceback__)[-3:]
            places = " < ".join(
                f"{'/'.join(frame.filename.split('/')[-3:])}:{frame.lineno} {frame.name}"
                for frame in reversed(frames)
            )
            self.last = f"{type(error).__name__}: {error} [{places}]"


class Walk:
    """One walk through a site.

    Attributes:
        faults: what went wrong: the user, the tool, the kind, and a text.
        refused: creations that were refused, by tool: no faults, but worth a look.
    """

    def __init__(self) -> None:
        self.faults: list[tuple[str, str, str, str]] = []
        self.refused: dict[str, str] = {}
        self.calls = 0
        self._internal = Internal()
        logging.getLogger("django_mcp").addHandler(self._internal)

    def note(self, user: str, tool: str, kind: str, text: str) -> None:
        """Note a fault, once for each tool and kind and text."""
        fault = (user, tool, kind, text[:600])
        if not any(each[1:] == fault[1:] for each in self.faults):
            self.faults.append(fault)

    def call(self, client: Any, who: str, tool: Mapping[str, Any], arguments: Any) -> Any:
        """Return the structured content of a call, or the text of the error that it ends with."""
        from django_mcp.inprocess import MCPError

        self.calls += 1
        name = tool["name"]
        self._internal.last = ""
        try:
            result = client.call(name, arguments)
        except MCPError as error:
            if "internal" in error.message.lower():
                self.note(who, name, "internal", f"{self._internal.last} <- {arguments}")
            return error.message
        text = result.text
        if result.is_error:
            if "internal error" in text.lower():
                self.note(who, name, "internal", f"{self._internal.last} <- {arguments}")
            return text
        self._validate(who, tool, result.structured)
        return result.structured

    def _validate(self, who: str, tool: Mapping[str, Any], content: Any) -> None:
        if "outputSchema" not in tool:
            return
        validator = jsonschema.Draft202012Validator(tool["outputSchema"])
        for error in list(validator.iter_errors(content))[:3]:
            where = "/".join(str(part) for part in error.absolute_path)
            told = f"{where}: {error.message}"
            self.note(who, tool["name"], "schema", told)


def by_model(owners: Mapping[str, tuple[Any, str]], listed: list[Any]) -> dict[Any, dict[str, Any]]:
    """Return the listed tools by model and action."""
    tools: dict[Any, dict[str, Any]] = {}
    for tool in listed:
        if tool["name"] in owners:  # else of a model that failed to register all of its tools
            model, action = owners[tool["name"]]
            tools.setdefault(model, {})[action] = tool
    return tools


def make_people() -> dict[str, Any]:
    """Return the users by name: of those of the staff, one has some of the permissions."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Permission

    users: Any = get_user_model()
    staff = users.objects.create_user("staff", is_staff=True)
    kinds = {"view": 2, "change": 3, "add": 5}
    for position, permission in enumerate(Permission.objects.order_by("pk")):
        kind = permission.codename.partition("_")[0]
        if kind in kinds and position % kinds[kind] == 0:
            staff.user_permissions.add(permission)
    root = users.objects.create_superuser("root", "root@example.com", "x")
    return {
        "root": root,
        "staff": staff,
        "user": users.objects.create_user("user"),
        "anonymous": None,
    }


def walk_admin(walk: Walk, people: Mapping[str, Any]) -> None:
    """Walk through the tools of the admin."""
    from django.contrib import admin

    from django_mcp.test import MCPClient
    from tests.circle.admin_pages import AdminPages
    from tests.circle.servers import make_admin
    from tests.circle.tools_of_model import OfModel

    server, owners = make_admin(walk.note)
    for who in ("user", "anonymous"):
        for tool in MCPClient(server, user=people[who]).list_tools():
            walk.note(who, tool["name"], "visible", "the admin shows nothing")
    made = {model for model, _action in owners.values()}
    for who in ("root", "staff"):
        client, pages = MCPClient(server, user=people[who]), AdminPages(people[who])
        tools = by_model(owners, client.list_tools())
        for model in admin.site._registry:
            of_model = tools.get(model, {})
            status = pages.status(model) if model in made else 500
            if status != 500 and (status == 200) != ("search" in of_model):
                told = f"the list of the admin answers with {status}"
                walk.note(who, model._meta.label_lower, "visible", told)
            if of_model:
                OfModel(walk, client, who, model, of_model, pages.list).run()


def walk_models(walk: Walk, people: Mapping[str, Any]) -> None:
    """Walk through the tools of models."""
    from django_mcp.test import MCPClient
    from tests.circle.servers import make_models
    from tests.circle.tools_of_model import OfModel

    server, owners = make_models(walk.note)
    client = MCPClient(server, user=people["root"])
    for model, of_model in by_model(owners, client.list_tools()).items():
        OfModel(walk, client, "root", model, of_model, None).run()


def walk_rest(walk: Walk, people: Mapping[str, Any]) -> None:
    """Walk through the tools of REST views."""
    from django.apps import apps

    from django_mcp.test import MCPClient
    from tests.circle.tools_of_view import OfView
    from tests.circle.views_of_site import make_rest

    hints: dict[str, Any] = {
        "year": 2026, "version": "v1", "starts": "2026-03-01", "takes": "00:05:00", "budget": "1.5",
        "website_url": "https://example.com",
    }  # fmt: skip
    models: Any = {
        model._meta.model_name: model for model in apps.get_app_config("api").get_models()
    }
    first = {name: model._base_manager.order_by("pk")[0] for name, model in models.items()}
    first["project"] = first["task"].project
    hints |= {f"{name}_pk": row.pk for name, row in first.items()}
    hints |= {f"{name}_id": row.pk for name, row in first.items()}
    hints |= {name: row.pk for name, row in first.items()}
    server, views = make_rest(walk.note)
    for who, user in people.items():
        if user is not None:
            models["project"].objects.update(owner=user)
        client = MCPClient(server, user=user)
        tools = {tool["name"]: tool for tool in client.list_tools()}
        for view in views:
            start = f"{view.prefix}_"
            of_view = {
                name.removeprefix(start): tool
                for name, tool in tools.items()
                if name.startswith(start)
            }
            key = hints_of(view, first)
            OfView(walk, client, who, user, view, of_view, hints, key).run()


def walk_operations(walk: Walk, people: Mapping[str, Any]) -> None:
    """Walk through the tools of operations of Django Ninja and django-ninja-extra."""
    from django_mcp.test import MCPClient
    from tests.circle.tools_of_operation import OfOperation, find_operations, make_operations

    server, operations = make_operations(), find_operations()
    made = set(server.registry.tools)
    for name in made ^ {operation.tool for operation in operations}:
        told = "a tool for it is not expected" if name in made else "no tool"
        walk.note("", name, "start", told)
    for who, user in people.items():
        client = MCPClient(server, user=user)
        tools = {tool["name"]: tool for tool in client.list_tools()}
        for operation in operations:
            if operation.tool in made:
                tool = tools.get(operation.tool)
                OfOperation(walk, client, who, user, operation, tool).run()


def hints_of(view: Any, first: Mapping[str, Any]) -> dict[str, Any]:
    """Return the key of the first row of a view, by the name that its URL has for it."""
    cls: Any = view.view
    meta = getattr(getattr(cls, "serializer_class", None), "Meta", None)
    model: Any = getattr(getattr(cls, "queryset", None), "model", getattr(meta, "model", None))
    row = None if model is None else first.get(model._meta.model_name)
    if row is None:
        return {}
    return {cls.lookup_url_kwarg or cls.lookup_field: getattr(row, cls.lookup_field)}


def walk_site() -> Walk:
    """Walk through the site of the settings."""
    from django.apps import apps
    from django.core.management import call_command

    from tests.circle.rows import Rows

    call_command("migrate", run_syncdb=True, verbosity=0)
    people, walk, rows = make_people(), Walk(), Rows()
    rows.make_all()
    for label, reason in rows.failed.items():
        walk.note("", label, "no rows", reason)
    walk_admin(walk, people)
    walk_models(walk, people)
    if apps.is_installed("rest_framework"):
        walk_rest(walk, people)
    if apps.is_installed("ninja_extra"):
        walk_operations(walk, people)
    return walk


def main(site: str) -> None:
    """Print the faults of a site as lines of JSON, and a summary on standard error."""
    os.environ["CIRCLE_SITE"] = site
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.circle.settings"
    with tempfile.TemporaryDirectory() as media:
        os.environ["CIRCLE_MEDIA"] = media
        import django
        from django.test.utils import setup_test_environment

        django.setup()
        setup_test_environment()
        logging.disable(logging.WARNING)
        started = time.monotonic()
        walk = walk_site()
    for fault in walk.faults:
        print(json.dumps(fault))
    counts = Counter(fault[2] for fault in walk.faults)
    took = time.monotonic() - started
    print(f"{site}: {walk.calls} calls in {took:.0f} s, {dict(counts)}", file=sys.stderr)
    if "--refused" in sys.argv:
        for tool, text in walk.refused.items():
            print(f"refused {tool}: {text}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
