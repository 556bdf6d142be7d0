"""What `manage.py check` reports about middleware of Django's list, which does not all run for calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, JsonResponse
from django.shortcuts import redirect
from django.test import override_settings
from django.utils.deprecation import MiddlewareMixin

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
