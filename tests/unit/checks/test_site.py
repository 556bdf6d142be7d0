"""What `manage.py check` reports about a site's configuration."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import markcoroutinefunction
from django.conf.urls.i18n import i18n_patterns
from django.core.checks import CheckMessage, run_checks
from django.http import HttpRequest, HttpResponse
from django.test import modify_settings, override_settings
from django.urls import include, path, re_path
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect

from django_mcp import Extension, ExtensionMethod
from django_mcp.apps import discover
from django_mcp.auth.authenticators import (
    APIKeyAuthenticator,
    Authenticator,
    CallableAuthenticator,
    SessionAuthenticator,
)
from django_mcp.auth.principal import AuthInfo, Principal
from django_mcp.contrib.drf import DRFAuthenticator
from django_mcp.middleware import GetReply
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.servers import MCPServer, all_servers, default_server
from django_mcp.transports.http.view import MCPView

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db

SECURITY = "django.middleware.security.SecurityMiddleware"
COMMON = "django.middleware.common.CommonMiddleware"
LAYER = "channels_redis.core.RedisChannelLayer"
PUBSUB = "channels_redis.pubsub.RedisPubSubChannelLayer"
COOKIES = "django.contrib.sessions.backends.signed_cookies"
OURS = ("django_mcp.E", "django_mcp.W", "django_mcp.I")


urlpatterns: list[Any] = []
"""No servers: who gets into them has tests of its own below."""


LASTING: set[int] = set()
"""The servers, by their identities, that no collection of garbage removes."""


@pytest.fixture(autouse=True)
def no_servers_of_other_tests() -> Iterator[None]:
    gc.collect(1)
    if servers_there() != LASTING:
        # An earlier test may have frozen objects with its first response.
        gc.unfreeze()
        gc.collect()
        LASTING.clear()
        LASTING.update(servers_there())
    with override_settings(ROOT_URLCONF=__name__):
        yield


def servers_there() -> set[int]:
    return {id(server) for server in all_servers()}


def found(*, deploy: bool = False) -> list[CheckMessage]:
    messages = run_checks(include_deployment_checks=deploy)
    # Those of OAuth, django_mcp.O..., have tests of their own. Most URLconfs here lack the default server,
    # and most functions of tests a docstring or hints, or keep something in their module; a server of another test
    # may still be there.
    others = (
        "django_mcp.W016",
        "django_mcp.I007",
        "django_mcp.I008",
        "django_mcp.I015",
        "django_mcp.I021",
        "django_mcp.I022",
        "django_mcp.I024",
        "django_mcp.I025",
    )
    return [each for each in messages if (each.id or "").startswith(OURS) and each.id not in others]


def ids(*, deploy: bool = False) -> list[str | None]:
    return [each.id for each in found(deploy=deploy)]


@override_settings(ROOT_URLCONF="tests.urls", DEBUG=True)
def test_the_test_site_passes_the_checks():
    assert ids() == []


def any_page(request: HttpRequest, page: str = "") -> HttpResponse:
    """Answer every path."""
    return HttpResponse()


DEFAULT = path("", include("django_mcp.urls"))


@pytest.mark.parametrize(
    ("patterns", "paths"),
    [
        ([path("<path:page>", any_page), DEFAULT], ["/mcp, /mcp/, /mcp/health and "]),
        ([DEFAULT, path("<path:page>", any_page)], []),
        ([DEFAULT, DEFAULT], []),
        ([path("mcp/", any_page), DEFAULT], ["/mcp/ in place"]),
        ([path("mcp/connect/", any_page), DEFAULT], ["/mcp/connect/ in place"]),
    ],
)
@override_settings(DJANGO_MCP={"PUBLIC": True}, DEBUG=True)
def test_a_pattern_that_answers_the_path_of_an_endpoint_is_named(
    patterns: list[Any], paths: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)
    messages = [each for each in found() if each.id == "django_mcp.W020"]

    assert [text in each.msg for each, text in zip(messages, paths, strict=True)] == [True] * len(
        paths
    )
    for each in messages:
        assert f"{__name__}.any_page" in each.msg
        assert "above" in str(each.hint)


def test_another_server_at_the_path_of_a_server_is_named(monkeypatch: pytest.MonkeyPatch):
    first, second = (MCPServer(name, public=True) for name in ("first at desk", "second at desk"))
    patterns = [path("desk/", first.urls), path("desk/", second.urls)]
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)

    assert "django_mcp.W020" in ids()


@override_settings(DJANGO_MCP={"CONNECT_KEY_DAYS": 30, "PUBLIC": True})
def test_keys_that_no_server_reads_are_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(f"{__name__}.urlpatterns", [DEFAULT])
    assert "django_mcp.W021" in ids()

    keyed = MCPServer("keyed by users", authenticators=[APIKeyAuthenticator()])
    monkeypatch.setattr(f"{__name__}.urlpatterns", [DEFAULT, path("keyed/", keyed.urls)])
    with override_settings(ROOT_URLCONF=__name__):
        assert "django_mcp.W021" not in ids()


def unserved() -> list[str]:
    messages = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W016"]
    return [f"{each.msg} {each.hint}" for each in messages if "Staff tools" in each.msg]


def test_a_server_with_entries_and_no_url_is_reported():
    staff = MCPServer("Staff tools", public=True)
    assert unserved() == []

    staff.register_tool(lambda: "", name="one")
    (text,) = unserved()
    with override_settings(
        ROOT_URLCONF=type("URLs", (), {"urlpatterns": [path("staff/", staff.urls)]})
    ):
        of_served = unserved()

    assert "1 entry of the MCP server 'Staff tools' cannot be called over HTTP" in text
    assert 'Write path("staff-tools/", server.urls) into the root URLconf.' in text
    assert of_served == []


def test_the_remedy_for_a_server_without_a_url_imports_it(monkeypatch: pytest.MonkeyPatch):
    own, other = ModuleType("shop.mcp"), ModuleType("shop.admin")
    staff = MCPServer("Staff tools", public=True)
    staff.register_tool(lambda: "", name="one")
    vars(own)["back_office"] = vars(other)["imported"] = staff
    for module in (own, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    (text,) = unserved()

    assert 'path("staff-tools/", back_office.urls)' in text
    assert "from shop.mcp import back_office" in text


def test_the_remedy_for_a_server_names_no_other_server(monkeypatch: pytest.MonkeyPatch):
    servers = [MCPServer(f"Staff tools {number}", public=True) for number in (1, 2)]
    for number, server in enumerate(servers, 1):
        server.register_tool(lambda: "", name="one")
        module = ModuleType(f"shop{number}.mcp")
        vars(module)[f"office{number}"] = server
        monkeypatch.setitem(sys.modules, module.__name__, module)

    assert sorted(re.findall(r"from (\w+)", text) for text in unserved()) == [["shop1"], ["shop2"]]


def test_every_check_is_documented():
    import django_mcp.checks

    page = Path(__file__).parents[3] / "docs" / "reference" / "checks.md"
    modules = Path(django_mcp.checks.__file__).parent.glob("*.py")
    source = "".join(each.read_text() for each in modules)
    known = {part.split('"')[0] for part in source.split('id="')[1:]} | {"django_mcp.E001"}
    known = {each for each in known if each.startswith("django_mcp.")} | {"django_mcp.E002"}

    assert len(known) > 25
    assert [each for each in sorted(known) if f"`{each}`" not in page.read_text()] == []


class Stamps(Extension):
    identifier = "com.example/stamps"


class Listing(Extension):
    identifier = "com.example/listing"

    def methods(self) -> Mapping[str, ExtensionMethod]:
        async def answer(call: Any) -> Mapping[str, Any]:
            return {}

        return {"tools/list": ExtensionMethod(answer=answer)}


@pytest.mark.parametrize(
    ("settings", "id", "hint"),
    [
        ({"DJANGO_MCP": {"PAGE_SIZE": -1}}, "E001", "0 or more"),
        ({"DJANGO_MCP": {"NAME": "", "MODE": 1, "MIDDLEWARE": 3}}, "E001", "must be"),
        ({"DJANGO_MCP": []}, "E001", "DJANGO_MCP = {...}"),
        ({"DJANGO_MCP": 3}, "E001", "DJANGO_MCP = {...}"),
        ({"DJANGO_MCP": {"PAGE_SIZES": 1}}, "E002", "PAGE_SIZE"),
        ({"DJANGO_MCP": {"PUBLIC": "no"}}, "E001", "True or False"),
        ({"DJANGO_MCP_PAGE_SIZE": 5}, "E002", "DJANGO_MCP = {'PAGE_SIZE': ...}"),
        ({"DJANGO_MCPS": {}}, "E002", "Did you mean 'DJANGO_MCP'?"),
        ({"MCP_THROTTLE": {}}, "W050", "DJANGO_MCP = {'THROTTLE': ...}"),
        ({"DJANGOMCP_THROTTLE": {}}, "E002", "DJANGO_MCP = {'THROTTLE': ...}"),
        ({"MCP_THROTTLE": {}, "DJANGO_MCP": {"PUBLIC": True}}, "W050", "{'THROTTLE': ...}"),
        ({"MCP": {"THROTTLE": {}}, "DJANGO_MCP": {"PUBLIC": True}}, "E002", "Did you mean"),
        ({"MCP_PAGESIZE": 5, "DJANGO_MCP": {"PUBLIC": True}}, "W050", "{'PAGE_SIZE': ...}"),
        ({"DJANGO_MCP_PAGESIZE": 5, "DJANGO_MCP": {"PUBLIC": True}}, "E002", "{'PAGE_SIZE': ...}"),
        ({"MCP_CONFIG": {"PAGE_SIZE": 3}, "DJANGO_MCP": {"PUBLIC": True}}, "W050", "Did you mean"),
        ({"MY_MCP": {"PAGE_SIZE": 3}, "DJANGO_MCP": {"PUBLIC": True}}, "W050", "Did you mean"),
        ({"CHANNEL_LAYERS": {"BACKEND": LAYER}}, "W028", "'default': {'BACKEND'"),
        ({"CHANNEL_LAYERS": {"default": {"CONFIG": {}}}}, "W028", "'default': {'BACKEND'"),
        ({"CHANNEL_LAYERS": {"default": {"BACKEND": f"{LAYER}s"}}}, "W028", "'default': "),
        (
            {"CHANNEL_LAYERS": {"default": {"BACKEND": LAYER, "CONFIG": {"host": ""}}}},
            "W028",
            "'hosts': ",
        ),
        *(
            (
                {"CHANNEL_LAYERS": {"default": {"BACKEND": PUBSUB, "CONFIG": {"hosts": hosts}}}},
                "W028",
                "'hosts': ",
            )
            for hosts in ("redis://cache:6379", ["cache:6379"], ["http://cache"], [("cache",)])
        ),
        ({"DJANGO_MCP": {"MIDDLEWARE": ["shop.nothing.Here"]}}, "E003", "dotted path"),
        ({"DJANGO_MCP": {"MIDDLEWARE": [SECURITY]}}, "E003", "take get_reply"),
        ({"DJANGO_MCP": {"MIDDLEWARE": [COMMON]}}, "E003", "take get_reply"),
        (
            {"DJANGO_MCP": {"ALLOWED_ORIGINS": ["*"], "CORS_ALLOW_CREDENTIALS": True}},
            "E005",
            "List the origins",
        ),
        (
            {"DJANGO_MCP": {"SESSION_DATA": "session_engine"}, "SESSION_ENGINE": COOKIES},
            "E008",
            "on the server",
        ),
        ({"DJANGO_MCP": {"TASK_RUNNER": "nope.X"}}, "E009", "takes no arguments"),
        ({"DJANGO_MCP": {"EXTENSIONS": ["nope.X"]}}, "E015", "django_mcp.Extension"),
        ({"DJANGO_MCP": {"EXTENSIONS": ["django_mcp.Context"]}}, "E015", "django_mcp.Extension"),
        ({"DJANGO_MCP": {"EXTENSIONS": 2 * [f"{__name__}.Stamps"]}}, "E015", "in common"),
        ({"DJANGO_MCP": {"EXTENSIONS": [f"{__name__}.Listing"]}}, "E015", "in common"),
        (
            {
                "DJANGO_MCP": {
                    "TASK_STORE": "memory",
                    "TASK_RUNNER": "django_mcp.extensions.tasks.celery.CeleryRunner",
                }
            },
            "E018",
            "Set TASK_STORE to 'model'",
        ),
        ({"DJANGO_MCP": {"TELEMETRY_DETAILS": ["arguments"]}}, "W048", "leave this one out"),
        ({"DJANGO_MCP": {"RECORD_QUERIES": 0.1}}, "W048", "leave this one out"),
        ({"ALLOWED_HOSTS": ["*"]}, "W002", "ALLOWED_HOSTS"),
        (
            {
                "MIDDLEWARE": ["tests.unit.checks.test_site.LoginRequiredEverywhere"],
                "ASGI_APPLICATION": None,
            },
            "W003",
            "django_mcp_application",
        ),
        (
            {
                "SECURE_SSL_REDIRECT": True,
                "SECURE_REDIRECT_EXEMPT": [r"^health$"],
                "ASGI_APPLICATION": None,
            },
            "W004",
            "https",
        ),
        (
            {"PREPEND_WWW": True, "ASGI_APPLICATION": None},
            "W004",
            "www.",
        ),
    ],
)
def test_problems_are_reported_with_a_hint(settings: dict[str, Any], id: str, hint: str):
    # Their middleware has no language of the client, which is another problem.
    with override_settings(USE_I18N=False, **settings):
        messages = found()

    assert messages
    assert {each.id for each in messages} == {f"django_mcp.{id}"}
    assert hint in (messages[0].hint or "")


@override_settings(
    MIDDLEWARE=["tests.unit.checks.test_site.LoginRequiredEverywhere", SECURITY, COMMON],
    SECURE_SSL_REDIRECT=True,
    PREPEND_WWW=True,
)
def test_middleware_that_does_not_run_for_the_endpoint_is_no_problem():
    assert ids() == []


class LoginRequiredEverywhere:
    """Stands for a third party's."""


@pytest.mark.parametrize(
    "settings",
    [
        {"DEBUG": True, "ALLOWED_HOSTS": ["*"]},
        {"MIDDLEWARE": ["django.contrib.auth.middleware.LoginRequiredMiddleware"]},
        {
            "MIDDLEWARE": [SECURITY],
            "SECURE_SSL_REDIRECT": True,
            "SECURE_REDIRECT_EXEMPT": [r"^mcp/?$"],
        },
        {"DJANGO_MCP": {"ALLOWED_ORIGINS": ["*"]}},
        {"DJANGO_MCP": {"CORS_ALLOW_CREDENTIALS": True}},
        {"MCP_SERVERS": {"a": {}}, "MCP_GLOBAL_LIMIT": 3, "MCP": {"servers": [], "THROTTLE": {}}},
        {"MCP_PAGE_SIZE": 5, "MCP": {"PAGE_SIZE": 5}, "DJANGO_MCP": {"PAGE_SIZE": 5}},
        {"DJANGO_MCP": {"TELEMETRY": "off", "TELEMETRY_DETAILS": ["arguments"]}},
    ],
)
def test_correct_configurations_are_not_reported(settings: dict[str, Any]):
    with override_settings(**settings):
        assert ids() == []


def test_duplicate_server_names_are_reported():
    servers = [MCPServer("twin"), MCPServer("twin")]

    (message,) = found()

    assert message.id == "django_mcp.E004"
    assert f"{len(servers)} MCP servers are called 'twin'" in message.msg


def test_a_server_named_like_the_default_is_reported():
    server = MCPServer("the shop")

    with override_settings(DJANGO_MCP={"NAME": server.name}):
        assert ids() == ["django_mcp.E004"]


def test_a_top_level_module_named_mcp_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mcp.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mcp", raising=False)

    (message,) = found()

    assert message.id == "django_mcp.W001"
    assert str(tmp_path / "mcp.py") in message.msg


@pytest.mark.parametrize(
    ("name", "text", "is_told"),
    [
        ("mcps", "from django_mcp import tool\n\n@tool\ndef a(): ...\n", True),
        ("mcp_tools", "import django_mcp\n\n@django_mcp.tool(name='a')\ndef a(): ...\n", True),
        ("tools", "from django_mcp.contrib.drf import viewset_tools\nviewset_tools(A)\n", True),
        ("handlers", "from django_mcp import tool\n\n@tool\ndef a(): ...\n", True),
        ("test_tools", "from django_mcp import tool\n\n@tool\ndef a(): ...\n", False),
        ("tools", "from other import tool\n\n@tool\ndef a(): ...\n", False),
        ("mcp_client", "from django_mcp import MCPServer\n", False),
        ("views", "from django_mcp import tool\n\n@tool\ndef a(): ...\n", False),
    ],
)
def test_tools_in_a_module_that_is_not_found_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, is_told: bool
):
    folder = tmp_path / "misplaced_tools"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    path = folder / f"{name}.py"
    path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with modify_settings(INSTALLED_APPS={"append": "misplaced_tools"}):
        told = [each for each in found() if each.id == "django_mcp.W023"]
        monkeypatch.setitem(sys.modules, f"misplaced_tools.{name}", ModuleType(name))
        told_of_imported = [each for each in found() if each.id == "django_mcp.W023"]
        monkeypatch.delitem(sys.modules, f"misplaced_tools.{name}")
        (folder / "mcp.py").write_text("")
        told_with_module = [each for each in found() if each.id == "django_mcp.W023"]
    sys.modules.pop("misplaced_tools")

    for messages in (told, told_with_module):
        paths = [each.msg.partition(" is not imported")[0] for each in messages]
        assert paths == [str(path)] * is_told
    assert told_of_imported == []
    assert all(each.hint == "Import it in the app's mcp module." for each in told_with_module)


def test_tools_beside_the_urlconf_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "project_of_tools"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "urls.py").write_text("urlpatterns = []\n")
    (folder / "mcp.py").write_text("from django_mcp import tool\n\n@tool\ndef a(): ...\n")
    monkeypatch.syspath_prepend(tmp_path)

    def told() -> list[str]:
        return [each.msg for each in found() if each.id == "django_mcp.W023"]

    try:
        with override_settings(ROOT_URLCONF="project_of_tools.urls"):
            told_of_file = told()
            with monkeypatch.context() as imported:
                module = ModuleType("mcp")
                module.__file__ = str(folder / "mcp.py")
                imported.setitem(sys.modules, "project_of_tools.mcp", module)
                told_of_imported = told()
    finally:
        for name in [name for name in sys.modules if name.startswith("project_of_tools")]:
            del sys.modules[name]

    path = folder / "mcp.py"
    assert told_of_file == [f"{path} is not imported, so what it registers is not found."]
    assert told_of_imported == []


def test_tools_of_an_app_that_is_not_installed_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("the_project", "forgotten", "parts/installed", "parts/other"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("")
        text = "from django_mcp import tool\n\n@tool\ndef a(): ...\n"
        (tmp_path / name / "mcp.py").write_text(text if name != "the_project" else "")
    (tmp_path / "the_project" / "urls.py").write_text("urlpatterns = []\n")
    monkeypatch.syspath_prepend(tmp_path)

    try:
        with (
            override_settings(ROOT_URLCONF="the_project.urls"),
            modify_settings(INSTALLED_APPS={"append": "parts.installed"}),
        ):
            told = [each for each in found() if each.id == "django_mcp.W023"]
    finally:
        for name in [name for name in sys.modules if name.startswith(("the_project", "parts"))]:
            del sys.modules[name]

    assert [each.msg.partition(" is not imported")[0] for each in told] == [
        str(tmp_path / name / "mcp.py") for name in ("forgotten", "parts/other")
    ]
    assert [each.hint for each in told] == [
        f"Move it into an app, or add {package!r} to INSTALLED_APPS."
        for package in ("forgotten", "parts.other")
    ]


@pytest.mark.parametrize("init", [None, "", "from . import orders\n"])
def test_modules_of_a_package_that_imports_none_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, init: str | None
):
    folder = tmp_path / "packaged_tools" / "mcp"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    if init is not None:
        (folder / "__init__.py").write_text(init)
    (folder / "orders.py").write_text("import django_mcp\nOrders.register() if 0 else None\n")
    monkeypatch.syspath_prepend(tmp_path)
    with modify_settings(INSTALLED_APPS={"append": "packaged_tools"}):
        discover()
        told = [each for each in found() if each.id == "django_mcp.W023"]
    for name in [name for name in sys.modules if name.startswith("packaged_tools")]:
        del sys.modules[name]

    assert [each.msg for each in told] == (
        []
        if init
        else [f"{folder / 'orders.py'} is not imported, so what it registers is not found."]
    )


@pytest.mark.parametrize("decorate", [csrf_protect, never_cache])
def test_a_decorated_view_is_reported(decorate: Callable[[Any], Any]):
    urls = ModuleType("urls")
    server = MCPServer("decorated")
    urls.urlpatterns = [path("in/mcp", decorate(MCPView(server)))]  # type: ignore[attr-defined]

    with override_settings(ROOT_URLCONF=urls):
        (message,) = found()

    assert message.id == "django_mcp.W005"
    assert "/in/mcp" in message.msg


# -- authentication


def messages_of(server: MCPServer, *, deploy: bool = False, **settings: Any) -> list[CheckMessage]:
    urls = ModuleType("urls")
    urls.urlpatterns = [path("", include(server.urls[0]))]  # type: ignore[attr-defined]
    with override_settings(ROOT_URLCONF=urls, **settings):
        return found(deploy=deploy)


@pytest.mark.parametrize(
    ("options", "id"),
    [
        ({"mode": "stateful", "revisions": ["2026-07-28"]}, "E017"),
        ({"legacy_sse": True, "revisions": ["2026-07-28"]}, "W048"),
        ({"mode": "stateful", "revisions": ["2025-11-25"]}, None),
        ({"mode": "stateless", "revisions": ["2025-11-25"]}, None),
        ({"legacy_sse": True}, None),
    ],
)
def test_options_of_a_server_that_exclude_one_another_are_reported(
    options: dict[str, Any], id: str | None
):
    messages = messages_of(MCPServer("odd", public=True, **options))

    assert [each.id for each in messages] == [f"django_mcp.{id}"][: id is not None]
    assert all("'odd'" in each.msg for each in messages)


def test_a_server_without_keys_of_users_is_told_of_their_days_without_a_page():
    settings = {"CONNECT_KEY_DAYS": 90, "CONNECT_PAGE": False}
    server = MCPServer("keys", authenticators=[APIKeyAuthenticator()])

    (message,) = messages_of(server, DJANGO_MCP=settings)

    assert message.id == "django_mcp.W048"
    assert "CONNECT_PAGE is False" in message.msg


@pytest.mark.parametrize("name", ["SESSION_STORE", "TASK_STORE"])
def test_what_each_process_has_in_its_memory_is_reported_for_deployment(name: str):
    with override_settings(DJANGO_MCP={name: "memory"}):
        assert "django_mcp.I014" not in ids()
        (message,) = (each for each in found(deploy=True) if each.id == "django_mcp.I014")

    assert name in message.msg


@pytest.mark.parametrize(
    ("engine", "backend", "is_told"),
    [
        ("cache", "locmem.LocMemCache", True),
        ("cache", "dummy.DummyCache", True),
        ("cache", "redis.RedisCache", False),
        ("cached_db", "locmem.LocMemCache", False),
    ],
)
def test_data_of_sessions_in_the_memory_of_a_process_is_reported(
    engine: str, backend: str, is_told: bool
):
    with override_settings(
        DJANGO_MCP={"SESSION_DATA": "session_engine"},
        SESSION_ENGINE=f"django.contrib.sessions.backends.{engine}",
        CACHES={"default": {"BACKEND": f"django.core.cache.backends.{backend}"}},
    ):
        assert "django_mcp.I014" not in ids()
        told = [each.msg for each in found(deploy=True) if each.id == "django_mcp.I014"]

    assert bool(told) is is_told
    assert all(" is 'session_engine', and SESSION_ENGINE keeps " in each for each in told)


@pytest.mark.parametrize(
    ("task", "annotation", "is_told"),
    [
        ("required", HttpRequest, True),
        ("allowed", HttpRequest, True),
        ("allowed", HttpRequest | None, False),
        ("never", HttpRequest, False),
        ("auto", HttpRequest, False),
    ],
)
def test_a_task_that_needs_a_request_is_reported(task: Any, annotation: Any, is_told: bool):
    server = MCPServer("requests", public=True)

    def look(request: Any) -> str:
        """Look at the request."""
        return str(request)

    look.__annotations__["request"] = annotation
    server.register_tool(look, task=task, read_only=True)

    messages = [each for each in messages_of(server) if each.id == "django_mcp.W049"]

    assert bool(messages) is is_told
    assert all("`request`" in each.msg for each in messages)


def test_a_closed_server_is_reported_with_a_hint():
    (message,) = messages_of(MCPServer("forgotten"))

    assert message.id == "django_mcp.W007"
    assert "MCPServer('forgotten')" in (message.hint or "")
    assert "public=True" in (message.hint or "")


def test_the_default_server_is_opened_by_settings():
    (message,) = messages_of(default_server, DJANGO_MCP={})

    assert message.id == "django_mcp.W007"
    assert "DJANGO_MCP['PUBLIC']" in (message.hint or "")


@pytest.mark.parametrize(
    "entry",
    [
        "no.such.Authenticator",
        "django_mcp.auth.principal.Rejection",
        "django_mcp.auth.authentication.logger",
    ],
)
def test_an_invalid_authenticator_is_reported(entry: str):
    (message,) = messages_of(MCPServer("mistaken", authenticators=[entry]))

    assert message.id == "django_mcp.E006"
    assert entry.rsplit(".", 1)[0] in message.msg


def test_an_authentication_class_of_an_api_is_told_where_it_belongs():
    entry = "rest_framework.authentication.TokenAuthentication"
    (message,) = messages_of(MCPServer("mistaken", authenticators=[entry]))

    assert message.id == "django_mcp.E006"
    assert "DRFAuthenticator of django_mcp.contrib.drf takes such a class" in message.msg


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ("django_mcp.auth.APIKeyAuthenticator", "auth.authenticators.APIKeyAuthenticator"),
        (
            "django_mcp.auth.authenticators.ApiKeyAuthenticator",
            "auth.authenticators.APIKeyAuthenticator",
        ),
        ("django_mcp.contrib.oauth.OauthAuthenticator", "contrib.oauth.OAuthAuthenticator"),
    ],
)
def test_a_misspelt_authenticator_suggests_the_right_one(entry: str, meant: str):
    (message,) = messages_of(MCPServer("misspelt", authenticators=[entry]))

    assert f"Did you mean django_mcp.{meant}?" in message.msg


@pytest.mark.parametrize(
    "authenticator",
    [DRFAuthenticator("no.such.Class"), DRFAuthenticator(dict), SessionAuthenticator()],
    ids=["no class", "another class", "no sessions"],
)
@modify_settings(INSTALLED_APPS={"remove": "django.contrib.sessions"})
def test_an_incomplete_authenticator_is_reported(authenticator: Authenticator):
    messages = messages_of(MCPServer("lacking", authenticators=[authenticator]))

    assert [each.id for each in messages] == ["django_mcp.E007"]


def test_a_public_server_with_writing_tools_is_reported():
    server = MCPServer("open", public=True)
    server.tool(drop_everything)
    server.tool(read_only=True)(look)
    server.tool(permission="shop.delete_product")(drop_something)

    (message,) = messages_of(server)

    assert message.id == "django_mcp.W006"
    assert "drop_everything" in message.msg
    assert "look" not in message.msg
    assert "drop_something" not in message.msg
    assert messages_of(server, DEBUG=True) == []
    told = [each.id for each in messages_of(server, DEBUG=True, deploy=True)]
    assert told.count("django_mcp.W006") == 1
    told = [each.id for each in messages_of(server, deploy=True)]
    assert told.count("django_mcp.W006") == 1


def deployed(server: MCPServer) -> list[str]:
    """Return what I013 says of a server."""
    messages = messages_of(server, deploy=True)
    return [each.msg for each in messages if each.id == "django_mcp.I013"]


def test_tools_of_everybody_beside_authenticators_are_named():
    server = MCPServer("half open", public=True, authenticators=[Authenticator()])
    server.tool(drop_everything)
    server.tool(permission="shop.delete_product")(drop_something)
    server.tool(scopes="look")(look)
    for number in range(5):
        server.tool(name=f"look{number}", read_only=True)(look)

    (told,) = deployed(server)

    assert "'half open' has authenticators and is public: without signing in, everybody" in told
    assert told.endswith(
        "may use 6 of its tools: drop_everything, look0, look1, look2, look3 and more."
    )


def test_tools_of_everybody_are_named_where_nobody_signs_in():
    server = MCPServer("open", public=True)
    server.tool(read_only=True)(look)

    (told,) = deployed(server)

    assert told == (
        "The MCP server 'open' is public: without signing in, everybody may use 1 of its tools: look."
    )


@pytest.mark.parametrize(
    "options",
    [
        {"authenticators": [Authenticator()]},
        {"public": True, "permission": "shop.view_order"},
        {"public": True, "authenticators": [Authenticator()], "permission": "shop.view_order"},
    ],
    ids=["closed", "guarded", "guarded beside authenticators"],
)
def test_tools_of_other_servers_are_not_named(options: Any):
    server = MCPServer("not half open", **options)
    server.tool(look)

    assert deployed(server) == []


def test_a_server_with_authenticators_passes_the_checks():
    server = MCPServer("keyed", authenticators=[Authenticator()])
    server.tool(drop_everything)

    assert messages_of(server) == []


def drop_everything() -> str:
    return "gone"


def drop_something() -> str:
    return "gone"


def look() -> str:
    return "nothing"


# -- with --deploy


def deploy_messages(**settings: Any) -> dict[str | None, str]:
    with override_settings(**settings):
        return {each.id: each.msg for each in found(deploy=True)}


def test_middleware_that_asgi_skips_is_named():
    own = ["tests.unit.checks.test_site.LoginRequiredEverywhere"]
    messages = deploy_messages(MIDDLEWARE=[SECURITY, *own, COMMON])

    assert f"does not run: {own[0]}." in messages["django_mcp.I001"]
    assert "django_mcp.I001" not in deploy_messages(MIDDLEWARE=[SECURITY, COMMON])
    assert "django_mcp.I001" not in deploy_messages(MIDDLEWARE=own, ASGI_APPLICATION="nowhere.app")


POSTGRESQL = {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}


MYSQL = {**POSTGRESQL, "ENGINE": "django.db.backends.mysql"}
FEWER_THREADS = {"SYNC_THREADS": 8, "TASK_THREADS": 4}


@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
@pytest.mark.parametrize(
    ("database", "own", "told"),
    [
        ({**POSTGRESQL, "CONN_MAX_AGE": 60}, {}, "that is 208, and PostgreSQL allows 100"),
        ({**POSTGRESQL, "CONN_MAX_AGE": None}, {}, "keeps up to 52 connections of the database 'd"),
        ({**MYSQL, "CONN_MAX_AGE": 60}, {}, "that is 208, and MySQL allows 151"),
        # As the guide of deployments calculates.
        ({**POSTGRESQL, "CONN_MAX_AGE": 60}, FEWER_THREADS, None),
        ({**POSTGRESQL, "CONN_MAX_AGE": 60}, {**FEWER_THREADS, "TASK_THREADS": 6}, "that is 104"),
        ({**POSTGRESQL, "CONN_MAX_AGE": 60}, {"SYNC_THREADS": 0}, None),
        ({**POSTGRESQL, "CONN_MAX_AGE": 0}, {}, None),
        (POSTGRESQL, {}, None),
        ({**POSTGRESQL, "ENGINE": "django.db.backends.oracle", "CONN_MAX_AGE": 60}, {}, None),
        ({"ENGINE": "django.db.backends.sqlite3", "CONN_MAX_AGE": 60}, {}, None),
    ],
)
def test_persistent_connections_above_the_usual_limit_are_reported(
    database: dict[str, Any], own: dict[str, Any], told: str | None
):
    messages = deploy_messages(DATABASES={"default": database}, DJANGO_MCP=own)

    if told is None:
        assert "django_mcp.I002" not in messages
    else:
        assert told in messages["django_mcp.I002"]


@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
@pytest.mark.parametrize(
    ("pool", "is_told"),
    [
        (True, True),
        ({"min_size": 2, "max_size": 39}, True),
        ({"max_size": 40}, False),
        ({"min_size": 40}, False),
        (False, False),
    ],
)
def test_a_pool_smaller_than_what_tools_can_hold_is_reported(pool: object, is_told: bool):
    # 32 threads for calls and 8 for tasks.
    with override_settings(DATABASES={"default": {**POSTGRESQL, "OPTIONS": {"pool": pool}}}):
        assert ("django_mcp.W018" in ids()) is is_told


@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
@pytest.mark.parametrize(
    ("options", "is_told"), [({}, True), ({"transaction_mode": "IMMEDIATE"}, False)]
)
def test_sqlite_with_several_writers_is_reported(options: dict[str, Any], is_told: bool):
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3", "OPTIONS": options}
    server = MCPServer("writers")
    server.tool(name="writes")(drop_everything)

    with override_settings(DATABASES={"default": database}):
        assert ("django_mcp.I003" in ids()) is is_told


def test_an_unknown_permission_is_reported_with_the_nearest_match():
    server = MCPServer("w8", public=True, permission="shop.view_product")
    server.tool(permission=["shop.viwe_order", "auth.change_user"])(drop_everything)
    server.tool(permission="nonsense", read_only=True)(look)
    server.tool(permission="shop.wrap_present", read_only=True)(drop_something)

    messages = [each for each in messages_of(server) if each.id == "django_mcp.W008"]

    texts = {each.msg.split()[0].rpartition(".")[2]: (each.msg, each.hint) for each in messages}
    assert len(messages) == 3
    assert "'shop.viwe_order'" in texts["drop_everything"][0]
    assert "'shop.view_order'" in str(texts["drop_everything"][1])
    assert "'nonsense'" in texts["look"][0]
    assert "app_label.codename" in str(texts["look"][1])


def test_another_action_is_not_suggested_for_an_unknown_permission():
    server = MCPServer("w8", public=True)
    server.tool(permission="shop.refund_order")(drop_everything)

    (message,) = [each for each in messages_of(server) if each.id == "django_mcp.W008"]

    assert message.hint == "Declare it in Meta.permissions of a model and migrate."


def test_an_attribute_of_the_user_is_no_permission():
    server = MCPServer("w8", public=True)
    server.tool(permission="is_staff")(drop_everything)

    (message,) = [each for each in messages_of(server) if each.id == "django_mcp.W008"]

    assert "permission=lambda user: user.is_staff" in str(message.hint)


def test_an_unknown_permission_of_many_is_reported_once():
    server = MCPServer("w8", public=True, permission="shop.viwe_order")
    for function in (drop_everything, drop_something, look):
        server.tool(function)

    (message,) = [each for each in messages_of(server) if each.id == "django_mcp.W008"]

    assert " and 2 more need the permission 'shop.viwe_order'" in message.msg


def test_permissions_of_users_who_can_have_none_are_reported():
    server = MCPServer("w8", public=True)
    server.tool(permission="shop.view_order")(drop_everything)
    server.tool(permission="shop.view_order")(drop_something)
    server.tool(permission=lambda user: True, read_only=True)(look)

    # A model without PermissionsMixin.
    with override_settings(AUTH_USER_MODEL="shop.Product"):
        messages = [each for each in run_checks(tags=["security"]) if each.id == "django_mcp.W008"]

    (message,) = [each for each in messages if "drop_everything" in each.msg]
    assert "and 1 more need a permission, which nobody has: the model shop.Product" in message.msg


def test_existing_permissions_pass_the_checks():
    server = MCPServer("right", public=True)
    server.tool(permission=["shop.view_order", "auth.change_user"])(drop_everything)
    server.tool(permission=lambda user: user.is_staff)(drop_something)

    assert messages_of(server) == []


def test_unreachable_entries_are_reported_for_deployment():
    with_rules = MCPServer("i4", public=True)
    with_rules.tool(permission="shop.view_order")(drop_everything)
    with_rules.tool(permission=lambda user: True, read_only=True)(look)
    with_scopes = MCPServer("i4", public=True, scopes=["s"])
    with_scopes.tool(drop_something)
    keyed = MCPServer("keyed", public=True, authenticators=[Authenticator()])
    keyed.tool(permission="shop.view_order")(drop_everything)

    told = [
        [each for each in messages_of(server, deploy=True) if each.id == "django_mcp.I004"]
        for server in (with_rules, with_scopes, keyed)
    ]

    assert [len(each) for each in told] == [1, 1, 0]
    assert "drop_everything" in told[0][0].msg
    assert "look" not in told[0][0].msg
    assert "drop_something" in told[1][0].msg


def test_an_invalid_default_permission_is_reported_once():
    with override_settings(DJANGO_MCP={"PERMISSION": 5, "THROTTLE": {"planet": "1/m"}}):
        assert ids() == ["django_mcp.E001", "django_mcp.E001"]


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("password", True),
        ("apiKey", True),
        ("customer_email", True),
        ("access-token", True),
        ("token", True),
        ("region", False),
        ("page_token", False),
        ("tokens", False),
    ],
)
def test_a_sensitive_argument_in_a_header_is_reported(name: str, is_told: bool):
    server = MCPServer("headers", public=True)
    field = {"type": "string", "x-mcp-header": "Field"}
    schema = {
        "type": "object",
        "properties": {"of": {"type": "object", "properties": {name: field}}},
    }
    server.register_tool(drop_everything_of, input_schema=schema, read_only=True)

    assert ("django_mcp.W010" in [each.id for each in messages_of(server)]) is is_told


def drop_everything_of(of: dict[str, Any]) -> str:
    return ""


def test_wildcard_scopes_are_reported():
    server = MCPServer("wild", public=True, scopes=["shop:*"])
    server.tool(read_only=True)(look)
    server.tool(scopes=["shop:read"], read_only=True)(drop_something)
    settings = {"SCOPE_IMPLIES": {"*": ["shop:read"]}, "OAUTH_BASE_SCOPES": ["shop:read"]}

    with override_settings(DJANGO_MCP=settings):
        told = [each.msg for each in messages_of(server) if each.id == "django_mcp.W011"]

    assert len(told) == 2
    assert "SCOPE_IMPLIES" in told[0]
    assert "look" in told[1]
    assert "'shop:*'" in told[1]


@pytest.mark.parametrize(
    ("implied", "is_told"),
    [
        ({"shop:read": ["shop"]}, True),
        ({"all": ["shop"], "shop.orders/read": ["other", "shop.orders"]}, True),
        ({"shop": ["shop:read", "shop:write"]}, False),
        ({"shop:admin": ["shop"]}, False),
        ({"shop:write": ["shop:read"], "shopping": ["shop"]}, False),
        ({"shop:a": ["shop:a", "shop:"]}, False),
        (None, False),
    ],
)
def test_security_scopes_that_imply_broader_ones_are_reported(implied: Any, is_told: bool):
    with override_settings(DJANGO_MCP={"SCOPE_IMPLIES": implied}):
        told = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W039"]

    assert len(told) == is_told
    if told:
        hint = (
            "{'shop.orders': ['shop.orders/read']}"
            if "orders" in told[0].msg
            else "{'shop': ['shop:read']}"
        )
        assert hint in str(told[0].hint)


def test_web_resources_are_reported_for_deployment():
    server = MCPServer("web", public=True)
    server.resource("https://shop.example/terms")(look)
    server.resource("HTTP://shop.example/{page}")(drop_everything_at)
    server.resource("terms://all")(drop_something)

    found = [each for each in messages_of(server, deploy=True) if each.id == "django_mcp.I006"]

    assert [each.msg.split(" is served at ")[1].split(",")[0] for each in found] == [
        "'https://shop.example/terms'",
        "'HTTP://shop.example/{page}'",
    ]


def drop_everything_at(page: str) -> str:
    return page


@pytest.mark.parametrize("prefix_default_language", [True, False])
def test_an_endpoint_whose_path_depends_on_the_language_is_reported(
    prefix_default_language: bool, monkeypatch: pytest.MonkeyPatch
):
    other = MCPServer("localized staff", public=True)
    patterns = i18n_patterns(
        DEFAULT,
        path("staff/", other.urls),
        prefix_default_language=prefix_default_language,
    )
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)
    with override_settings(ROOT_URLCONF=__name__):
        of_default, of_other = [
            each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W035"
        ]

    assert "are inside of i18n_patterns" in of_default.msg
    assert 'path("", include("django_mcp.urls")) into urlpatterns outside' in str(of_default.hint)
    assert "'localized staff'" in of_other.msg

    monkeypatch.setattr(f"{__name__}.urlpatterns", [DEFAULT, *i18n_patterns(path("a", any_page))])
    with override_settings(ROOT_URLCONF=__name__):
        assert "django_mcp.W035" not in ids()


@pytest.mark.parametrize(
    ("prefix", "told", "line"),
    [
        ("mcp/", "is at /mcp/mcp,", 'path("", include("django_mcp.urls"))'),
        ("mcp", "is at /mcpmcp,", 'path("", include("django_mcp.urls"))'),
        ("api/mcp", "is at /api/mcpmcp,", 'path("api/", include("django_mcp.urls"))'),
        ("staff", "is at /staffmcp,", 'path("staff/", include("django_mcp.urls"))'),
    ],
)
def test_a_prefix_that_does_not_lead_to_mcp_below_it_is_reported(
    monkeypatch: pytest.MonkeyPatch, prefix: str, told: str, line: str
):
    monkeypatch.setattr(f"{__name__}.urlpatterns", [path(prefix, include("django_mcp.urls"))])
    with override_settings(ROOT_URLCONF=__name__):
        (message,) = [
            each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W029"
        ]

    assert told in message.msg
    assert line in str(message.hint)


@pytest.mark.parametrize("given", [path, re_path])
def test_a_prefix_with_a_slash_at_its_end_is_right(
    monkeypatch: pytest.MonkeyPatch, given: Callable[..., Any]
):
    server = MCPServer("prefixed", public=True)
    prefix = "shop-mcp/<slug:tenant>/" if given is path else r"^shop-mcp/(?:en/|)"
    patterns = [given(prefix, server.urls), path("", include("django_mcp.urls"))]
    monkeypatch.setattr(f"{__name__}.urlpatterns", patterns)
    with override_settings(ROOT_URLCONF=__name__):
        assert [
            each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W029"
        ] == []


def test_the_hint_of_a_prefix_without_a_slash_names_the_urls_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
):
    server = MCPServer("staff", public=True)
    monkeypatch.setattr(f"{__name__}.urlpatterns", [path("staff", server.urls)])
    with override_settings(ROOT_URLCONF=__name__):
        (message,) = [
            each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.W029"
        ]

    assert "'staff' is at /staffmcp," in message.msg
    assert 'path("staff/", ...)' in str(message.hint)


class OfDjango:
    """Middleware as Django's documentation shows it."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        return self.get_response(request)


def function_of_django(get_response: Any) -> Any:
    def middleware(request: Any) -> Any:
        return get_response(request)

    return middleware


def takes_two(get_reply: Any, exchange: Any) -> Any:
    return get_reply(exchange)


class OfCoroutines:
    def __init__(self, get_reply: Any) -> None:
        self.get_reply = get_reply

    async def __call__(self, exchange: Any) -> Any:
        return await self.get_reply(exchange)


class Marked(OfDjango):
    """Synchronous, and returns what is to be awaited."""

    def __init__(self, get_reply: Any) -> None:
        super().__init__(get_reply)
        markcoroutinefunction(self)


def annotated(get_reply: GetReply) -> GetReply:
    def answer(exchange: Exchange) -> Coroutine[Any, Any, Reply]:
        return get_reply(exchange)

    return answer


def partly(get_reply: Any) -> Any:
    return partial(OfCoroutines.__call__, OfCoroutines(get_reply))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("OfDjango", "a synchronous OfDjango"),
        ("function_of_django", "a synchronous function"),
        ("takes_two", "TypeError"),
    ],
)
def test_middleware_that_would_fail_each_request_is_reported(name: str, told: str):
    paths = [f"{__name__}.{name}", f"{__name__}.OfCoroutines"]
    with override_settings(DJANGO_MCP={"MIDDLEWARE": paths}):
        (message,) = [
            each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E003"
        ]

    assert paths[0] in message.msg
    assert told in message.msg
    assert "async def" in str(message.hint)


@pytest.mark.parametrize("name", ["OfCoroutines", "Marked", "annotated", "partly"])
def test_middleware_that_is_awaited_is_right(name: str):
    own = [f"django_mcp.middleware.{each}Middleware" for each in ("Locale", "RequestID", "Tenant")]
    with override_settings(DJANGO_MCP={"MIDDLEWARE": [f"{__name__}.{name}", *own]}):
        assert [
            each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E003"
        ] == []


# -- scopes that limit nobody


class KnowsUsers(Authenticator):
    def authenticate(self, exchange: Exchange) -> Principal | None:
        return _make_principal()


class KnowsScopes(Authenticator):
    def authenticate(self, exchange: Exchange) -> Principal | None:
        return _make_limited()


def _make_principal() -> Principal:
    return Principal(key="a")


def _make_limited() -> Principal:
    return Principal(key="a", auth=AuthInfo(subject="a", authenticator="b"))


def find_user(request: Any) -> Any:
    return None


def find_limited(request: Any) -> Any:
    return _make_limited()


@pytest.mark.parametrize(
    ("authenticators", "is_told"),
    [
        ([SessionAuthenticator()], True),
        ([SessionAuthenticator(), CallableAuthenticator(find_user)], True),
        ([KnowsUsers()], True),
        ([SessionAuthenticator(), APIKeyAuthenticator()], False),
        ([CallableAuthenticator(find_limited)], False),
        ([KnowsScopes()], False),
    ],
)
def test_scopes_that_limit_nobody(authenticators: list[Any], is_told: bool):
    server = MCPServer("scoped", authenticators=authenticators)
    server.register_tool(find_user, name="wipe", description="Wipe.", scopes=["admin"])

    told = {each.id: each.msg for each in messages_of(server)}

    assert ("django_mcp.W045" in told) is is_told
    assert not is_told or "test_site.find_user" in told["django_mcp.W045"]


def test_a_permission_beside_scopes_says_who_may():
    server = MCPServer("scoped", authenticators=[SessionAuthenticator()])
    server.register_tool(
        find_user, name="wipe", description="Wipe.", scopes=["admin"], permission="auth.add_user"
    )

    assert "django_mcp.W045" not in {each.id for each in messages_of(server)}


DUMMY = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
LOCAL = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
FILES = {
    "default": {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "LOCATION": "x"}
}


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[MCPServer], MCPServer]:
    """Return a function that leaves one server for the checks, since that of the demo has a throttle."""

    def leave(server: MCPServer) -> MCPServer:
        monkeypatch.setattr("django_mcp.checks.serving.all_servers", lambda: [server])
        return server

    return leave


def limited_by_tool() -> MCPServer:
    server = MCPServer("limited", public=True)

    @server.tool(throttle="5/m", read_only=True)
    def count() -> int:
        """Count."""
        return 1

    return server


@pytest.mark.parametrize(
    "make",
    [limited_by_tool, lambda: MCPServer("limited", public=True, throttle={"address": "5/m"})],
)
def test_a_cache_of_the_throttles_that_keeps_nothing_is_reported(
    make: Callable[[], MCPServer], only: Callable[[MCPServer], MCPServer]
):
    server = only(make())

    (message,) = messages_of(server, CACHES=DUMMY)
    assert message.id == "django_mcp.W042"
    assert "limits nothing: the cache 'default' keeps no counts" in message.msg
    assert messages_of(server, CACHES=LOCAL) == []


def test_a_cache_of_the_throttles_in_each_process_is_reported_for_deployment(
    only: Callable[[MCPServer], MCPServer],
):
    server = only(limited_by_tool())

    (message,) = (
        each
        for each in messages_of(server, CACHES=LOCAL, deploy=True)
        if each.id == "django_mcp.W042"
    )
    assert "limited" in message.msg or "count" in message.msg
    assert "in each process apart" in message.msg
    assert "django_mcp.W042" not in {
        each.id for each in messages_of(server, CACHES=FILES, deploy=True)
    }


def test_the_throttles_count_in_a_cache_of_their_own(
    only: Callable[[MCPServer], MCPServer],
):
    server = only(limited_by_tool())
    caches = {**DUMMY, "counts": LOCAL["default"]}

    assert messages_of(server, CACHES=caches, DJANGO_MCP={"THROTTLE_CACHE": "counts"}) == []


def test_the_cache_does_not_matter_where_no_rate_is_set(
    only: Callable[[MCPServer], MCPServer],
):
    server = only(MCPServer("free", public=True))

    assert messages_of(server, CACHES=DUMMY) == []


@override_settings(ROOT_URLCONF="tests.urls", CACHES=DUMMY)
def test_a_rate_of_the_setting_for_all_servers_is_reported_too():
    with override_settings(DJANGO_MCP={"THROTTLE": {"principal": "5/m"}}):
        assert "django_mcp.W042" in ids()
