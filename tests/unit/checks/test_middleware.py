"""What `manage.py check` reports about middleware: that of calls, and that of Django's list, which does not all run for calls."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import pytest
from asgiref.local import Local
from django.apps import apps
from django.conf import global_settings
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, JsonResponse
from django.shortcuts import redirect
from django.test import override_settings
from django.test.utils import isolate_apps
from django.utils import translation
from django.utils.deprecation import MiddlewareMixin
from django.utils.timezone import override as override_zone
from django.utils.translation import gettext_lazy

from django_mcp.checks.middleware import check_time_zones
from django_mcp.middleware import GetReply, LocaleMiddleware
from django_mcp.server.exchange.exchange import Exchange, Reply
from django_mcp.servers import MCPServer

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.urls")]

Next = Callable[[HttpRequest], Any]


urlpatterns: list[Any] = []


class _Around:
    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response


class OfficeOnly(_Around):
    def __call__(self, request: HttpRequest) -> Any:
        if request.META["REMOTE_ADDR"] != "192.0.2.7":
            return HttpResponseForbidden()
        return self.get_response(request)


class Denying(MiddlewareMixin):
    def process_view(self, request: HttpRequest, *_rest: Any) -> None:
        if not request.user.is_active:
            raise PermissionDenied


def gate(get_response: Next) -> Next:
    def answer(request: HttpRequest) -> Any:
        return get_response(request) if request.headers.get("x-gate") else closed()

    return answer


def closed() -> HttpResponse:
    return JsonResponse({"error": "closed"}, status=403)


class ByStatus(_Around):
    def __call__(self, request: HttpRequest) -> Any:
        response = HttpResponse("Not here")
        response.status_code = 403
        return response


class Terms(_Around):
    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request) if request.user.is_staff else redirect("/terms/")


class Inherited(OfficeOnly):
    pass


class AllowListMiddleware(_Around):
    """Says so by its name alone."""


class LogMiddleware(_Around):
    def __call__(self, request: HttpRequest) -> Any:
        logging.getLogger(__name__).debug("%s %s", request.META["REMOTE_ADDR"], request.user)
        return self.get_response(request)


class MovedMiddleware(_Around):
    def __call__(self, request: HttpRequest) -> Any:
        response = self.get_response(request)
        return redirect("/new/") if response.status_code == 404 else response


class HeaderMiddleware(_Around):
    def __call__(self, request: HttpRequest) -> Any:
        response = self.get_response(request)
        if response.status_code == 403:
            response["X-Refused"] = "1"
        return response


_local = threading.local()
_variable: ContextVar[Any] = ContextVar("_variable")


class History:
    context = Local()


def remember(user: Any) -> None:
    _local.user = user


@contextmanager
def remembering(user: Any) -> Iterator[None]:
    token = _variable.set(user)
    yield
    _variable.reset(token)


class ThreadLocal(_Around):
    def __call__(self, request: HttpRequest) -> Any:
        _local.user = request.user
        return self.get_response(request)


class ByFunction(MiddlewareMixin):
    def process_request(self, request: HttpRequest) -> None:
        remember(request.user)


class ByClass(_Around):
    def __call__(self, request: HttpRequest) -> Any:
        History.context.request = request
        return self.get_response(request)


def by_context(get_response: Next) -> Next:
    def answer(request: HttpRequest) -> Any:
        with remembering(request.user):
            return get_response(request)

    return answer


def activating(get_response: Next) -> Next:
    def answer(request: HttpRequest) -> Any:
        translation.activate("de")
        return get_response(request)

    return answer


def in_zone(get_response: Next) -> Next:
    def answer(request: HttpRequest) -> Any:
        with override_zone(request.headers["X-Time-Zone"]):
            return get_response(request)

    return answer


def reported(*names: str, id: str = "django_mcp.W034", **settings: Any) -> list[CheckMessage]:
    middleware = [name if "." in name else f"{__name__}.{name}" for name in names]
    with override_settings(MIDDLEWARE=middleware, **settings):
        messages = run_checks(include_deployment_checks=id == "django_mcp.I001")
    return [each for each in messages if each.id == id]


@pytest.mark.parametrize(
    "name",
    ["OfficeOnly", "Denying", "gate", "ByStatus", "Terms", "Inherited", "AllowListMiddleware"],
)
def test_middleware_that_refuses_requests_is_reported(name: str):
    (message,) = reported(name)

    assert message.msg == (
        "This entry of MIDDLEWARE can refuse requests, and does not run for MCP calls: "
        f"{__name__}.{name}."
    )
    assert "django_mcp.middleware.AccessMiddleware" in str(message.hint)


@pytest.mark.parametrize(
    "name", ["ThreadLocal", "ByFunction", "ByClass", "by_context", "activating", "in_zone"]
)
def test_middleware_that_keeps_something_for_other_code_is_reported(name: str):
    (message,) = reported(name, id="django_mcp.W054")

    assert message.msg.endswith(f", and MCP calls pass by: {__name__}.{name}.")
    assert reported(name, id="django_mcp.I001") == []


def test_it_is_reported_too_where_it_runs_for_calls():
    (message,) = reported(
        "ThreadLocal", id="django_mcp.W054", ASGI_APPLICATION="nowhere.application"
    )

    assert "before it is known who calls, and not in the thread of the handler: " in message.msg


@pytest.mark.parametrize("name", ["LogMiddleware", "OfficeOnly", "nowhere.at_all"])
def test_other_middleware_is_not_said_to_keep_something(name: str):
    assert reported(name, id="django_mcp.W054") == []


def test_all_of_them_are_reported_at_once():
    (message,) = reported("OfficeOnly", "LogMiddleware", "Denying")

    assert message.msg.endswith(
        f"do not run for MCP calls: {__name__}.OfficeOnly, {__name__}.Denying."
    )
    (other,) = reported("OfficeOnly", "LogMiddleware", id="django_mcp.I001")
    assert other.msg.endswith(f"does not run: {__name__}.LogMiddleware.")


@pytest.mark.parametrize(
    "name",
    [
        "LogMiddleware",
        "MovedMiddleware",
        "HeaderMiddleware",
        "oauth2_provider.middleware.OAuth2TokenMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "nowhere.at.all",
    ],
)
def test_other_middleware_is_not_reported(name: str):
    assert reported(name) == []


def test_without_an_endpoint_or_application_nothing_is_reported():
    assert reported("OfficeOnly", ROOT_URLCONF=__name__) == []
    assert reported("OfficeOnly", ASGI_APPLICATION="nowhere.asgi.application") == []


def test_the_application_is_found_where_no_setting_names_it():
    assert len(reported("OfficeOnly", ASGI_APPLICATION=None)) == 1


# -- middleware of calls


def answer_as_usual(get_reply: GetReply) -> GetReply:
    async def answer(exchange: Exchange) -> Reply:
        return await get_reply(exchange)

    return answer


def answer_in_german(get_reply: GetReply) -> GetReply:
    async def answer(exchange: Exchange) -> Reply:
        with translation.override("de"):
            return await get_reply(exchange)

    return answer


class OwnLanguages(LocaleMiddleware):
    pass


LANGUAGES = [("en", "English"), ("de", "German")]


def find_languages(*middleware: str, **settings: Any) -> list[CheckMessage]:
    server = MCPServer("texts", public=True)
    server.register_tool(
        lambda: None, name="a", title=gettext_lazy("Delete"), description="A.", read_only=True
    )
    of_calls = [name if "." in name else f"{__name__}.{name}" for name in middleware]
    options = {"LANGUAGES": LANGUAGES, "DJANGO_MCP": {"MIDDLEWARE": of_calls}} | settings
    return reported(id="django_mcp.W046", ROOT_URLCONF=__name__, **options)


def test_middleware_without_the_language_of_the_client():
    (message,) = find_languages("answer_as_usual")

    assert "'en-us'" in message.msg or "'en'" in message.msg
    assert "django_mcp.middleware.LocaleMiddleware" in (message.hint or "")
    assert find_languages()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("django_mcp.middleware.LocaleMiddleware", {}),
        ("OwnLanguages", {}),
        ("answer_in_german", {}),
        ("answer_as_usual", {"USE_I18N": False}),
        ("answer_as_usual", {"LANGUAGES": LANGUAGES[:1]}),
        ("answer_as_usual", {"LANGUAGES": global_settings.LANGUAGES}),
    ],
)
def test_middleware_that_is_right_about_languages(name: str, settings: dict[str, Any]):
    assert find_languages(name, **settings) == []


@pytest.mark.parametrize("name", ["django_mcp.middleware.LocaleMiddleware", "OwnLanguages"])
def test_middleware_of_calls_among_that_of_django(name: str):
    (message,) = reported(name, id="django_mcp.E020")

    assert name in message.msg
    assert "Move it to DJANGO_MCP['MIDDLEWARE']." in (message.hint or "")


def zone_of_user(get_reply: GetReply) -> GetReply:
    async def answer(exchange: Exchange) -> Reply:
        with override_zone("Asia/Tokyo"):
            return await get_reply(exchange)

    return answer


@pytest.mark.parametrize(
    ("name", "paths", "is_told"),
    [
        ("time_zone", [], True),
        ("tz", [], True),
        ("zone", [], False),
        ("time_zone", [f"{__name__}.zone_of_user"], False),
    ],
)
@isolate_apps("tests.unit.checks")
def test_time_zones_of_users_that_nothing_activates_are_reported(
    monkeypatch: pytest.MonkeyPatch, name: str, paths: list[str], is_told: bool
):
    field = models.CharField(max_length=40, name=name)
    users: Any = type(
        "Person",
        (models.Model,),
        {"__module__": __name__, name: field, "Meta": type("Meta", (), {"app_label": "checks"})},
    )
    monkeypatch.setattr(apps, "get_model", lambda _label: users)
    server = MCPServer("zones")

    @server.tool
    def remind(at: datetime) -> str:
        """Remind somebody."""
        return str(at)

    @server.tool
    def say(day: str) -> str:
        """Say something."""
        return day

    with override_settings(DJANGO_MCP={"MIDDLEWARE": paths}):
        messages = check_time_zones()

    assert [each.id for each in messages] == ["django_mcp.I018"] * is_told
    assert all("say" not in each.msg for each in messages)


@override_settings(AUTH_USER_MODEL="nowhere.User")
def test_a_site_without_users_has_no_time_zones_of_users():
    assert check_time_zones() == []
