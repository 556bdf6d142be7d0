"""What a client may put into the URL of a view of Django REST framework."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import pytest
from django.conf.urls.i18n import i18n_patterns
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.http import HttpResponseForbidden
from django.urls import include, path
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy, override
from django.views import View
from django.views.decorators.cache import cache_page, never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_safe
from rest_framework import permissions, routers, viewsets
from rest_framework.decorators import action, api_view
from rest_framework.response import Response
from rest_framework.views import APIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.routes import find_routes, make_urlconf

calls: list[dict[str, Any]] = []


class Echo(viewsets.ViewSet):
    """Remembers the variables of its URL."""

    permission_classes = (permissions.AllowAny,)

    def remember(self, kwargs: dict[str, Any]) -> Response:
        calls.append(kwargs)
        return Response({"done": True})

    def retrieve(self, request: Any, **kwargs: Any) -> Response:
        return self.remember(kwargs)


class Files(Echo):
    @action(detail=True, url_path=r"files/(?P<name>[\w-]+\.txt)")
    def file(self, request: Any, **kwargs: Any) -> Response:
        return self.remember(kwargs)

    @action(detail=False, url_path=r"(?P<year>[0-9]{4})/(?P<month>[0-9]{1,2})")
    def archive(self, request: Any, **kwargs: Any) -> Response:
        return self.remember(kwargs)

    @action(detail=False)
    def stats(self, request: Any) -> Response:
        return Response({"secret": True})


class Named(Echo):
    lookup_value_regex = "[a-z]{3}-[0-9]+"


class Greedy(Echo):
    lookup_value_regex = ".*"


class Numbered(Echo):
    lookup_value_converter = "int"

    @action(detail=True, url_path="on/<slug:day>")
    def day(self, request: Any, **kwargs: Any) -> Response:
        return self.remember(kwargs)


class Nested(Echo):
    def list(self, request: Any, **kwargs: Any) -> Response:
        return self.remember(kwargs)


class Plain(APIView):
    permission_classes = (permissions.AllowAny,)

    def get(self, request: Any, **kwargs: Any) -> Response:
        calls.append({**kwargs, "path": request._request.path})
        return Response({"done": True})


class Guarded(Plain):
    pass


class Person(Echo):
    """Is at the URL of each person, and at one of the caller."""


class Latest(Plain):
    pass


class Partly(Nested):
    pass


class Restricted(Plain):
    pass


@api_view(["GET"])
def year(request: Any, year: Any, **kwargs: Any) -> Response:
    calls.append({"year": year})
    return Response({"done": True})


router = routers.SimpleRouter()
router.register("files", Files, basename="files")
router.register(r"parents/(?P<parent_pk>[0-9]+)/nested", Nested, basename="nested")

urlpatterns = [
    path("plain/latest", Guarded.as_view()),
    path("plain/<slug:slug>", Plain.as_view()),
    path("people/me/", Person.as_view({"get": "retrieve"})),
    path("people/<int:pk>/", Person.as_view({"get": "retrieve"})),
    path("teams/<slug:team>/people/<int:pk>/", Person.as_view({"get": "retrieve"})),
    path("latest/", Latest.as_view()),
    path("latest/<int:year>/", Latest.as_view()),
    path("years/<int:year>/", cache_page(60)(never_cache(year))),
    path("partly/", Partly.as_view({"get": "list"})),
    path("restricted/", Restricted.as_view(permission_classes=[permissions.IsAdminUser])),
    *router.urls,
]


@pytest.fixture(autouse=True)
def _same_thread(settings: Any):
    settings.DJANGO_MCP = {"SYNC_THREADS": 0}
    calls.clear()


@pytest.fixture
def routed(settings: Any):
    settings.ROOT_URLCONF = __name__


def make_server(view: Any, **options: Any) -> MCPServer:
    server = MCPServer("urls", public=True)
    viewset_tools(view, server=server, prefix="", **options)
    return server


def call(server: MCPServer, tool: str, **arguments: Any) -> Any:
    """Return what the view got; None if the answer is "not found" and the view did not run."""
    calls.clear()
    result = server.call_tool(tool, arguments, user=AnonymousUser())
    if result.is_error:
        assert (result.raw["content"][0]["text"], calls) == ("Not Found.", [])
        return None
    return calls[0]


OUTSIDE = [
    "../outside.txt",
    "/etc/passwd.txt",
    "a.txt\n",
    "a\n.txt",
    "",
    "a.txt/",
    "%2e.txt",
    ".",
    "..",
]


@pytest.mark.parametrize("name", [*OUTSIDE, "a/b.txt", "a.txt?x", "x" * 10_000 + ".txt"])
def test_a_value_outside_of_the_expression_in_url_path_is_not_found(name: str):
    server = make_server(Files)

    assert call(server, "file", pk="1", name="a-1.txt") == {"pk": "1", "name": "a-1.txt"}
    assert call(server, "file", pk="1", name=name) is None


@pytest.mark.parametrize("value", ["1 OR 1=1", "20255", "2025\n", "2025/1", "٢٠٢٥", 2025.0])
def test_a_year_of_four_digits_is_no_sql(value: Any):
    server = make_server(Files, actions=["archive"])

    assert call(server, "archive", year=2025, month="1") == {"year": "2025", "month": "1"}
    assert call(server, "archive", year=value, month="1") is None


@pytest.mark.parametrize("key", ["a.b", "a/b", "", "..", "/a", "stats"])
def test_a_key_that_the_router_would_not_take_or_lead_elsewhere_is_not_found(key: str):
    server = make_server(Files)

    assert call(server, "retrieve", pk="ä 1%2F") == {"pk": "ä 1%2F"}
    assert call(server, "retrieve", pk=key) is None


@pytest.mark.parametrize("key", ["abc", "abc-1\n", "ABC-1", "abc-1/", "xabc-1"])
def test_a_key_outside_of_lookup_value_regex_is_not_found(key: str):
    server = make_server(Named)

    assert call(server, "retrieve", pk="abc-12") == {"pk": "abc-12"}
    assert call(server, "retrieve", pk=key) is None


@pytest.mark.parametrize("key", ["../x", "a/../../b", "/etc/passwd", "./a"])
def test_a_greedy_expression_takes_no_path_that_leads_out(key: str):
    server = make_server(Greedy)

    assert call(server, "retrieve", pk="a/b.c") == {"pk": "a/b.c"}
    assert call(server, "retrieve", pk=key) is None


def test_a_converter_reads_the_value_and_refuses_others():
    server = make_server(Numbered)

    assert call(server, "retrieve", pk="007") == {"pk": 7}
    assert call(server, "day", pk=1, day="mo-1") == {"pk": 1, "day": "mo-1"}
    assert call(server, "retrieve", pk="-1") is None
    assert call(server, "retrieve", pk="9" * 5000) is None
    assert call(server, "day", pk=1, day="mo/1") is None


def test_variables_of_a_nested_router_are_kept_to_one_segment():
    server = make_server(Nested, path={"parent_pk": {"type": "string"}})

    assert call(server, "retrieve", parent_pk="5", pk="1") == {"parent_pk": "5", "pk": "1"}
    for parent in ("5/nested/1", "..", "", "a.b", "x/y"):
        assert call(server, "retrieve", parent_pk=parent, pk="1") is None


@pytest.mark.usefixtures("routed")
def test_the_urlconf_of_the_site_decides():
    server = make_server(Nested, path={"parent_pk": {"type": ["string", "integer"]}})

    assert call(server, "list", parent_pk=5) == {"parent_pk": "5"}
    assert call(server, "list", parent_pk="x") is None
    assert call(make_server(Files), "retrieve", pk="stats") is None


@pytest.mark.parametrize("prefix", ["", "api/"])
def test_a_router_may_be_included_at_any_path(settings: Any, prefix: str):
    inner = routers.SimpleRouter()
    inner.register("files", Files, basename="files")
    settings.ROOT_URLCONF = (path(prefix, include(inner.urls)),)

    assert call(make_server(Files), "retrieve", pk="1") == {"pk": "1"}


@pytest.mark.usefixtures("routed")
def test_a_view_sees_the_url_that_leads_to_it():
    server = make_server(Plain, path={"slug": {"type": "string"}})

    assert call(server, "get", slug="a-b") == {"slug": "a-b", "path": "/plain/a-b"}
    assert call(server, "get", slug="latest") is None  # another view has this URL
    assert call(server, "get", slug="a.b") is None


@pytest.mark.usefixtures("routed")
def test_a_variable_that_only_some_urls_have_may_be_left_out():
    server = make_server(Person)

    schema = server.tool_input_schema("retrieve")
    assert (set(schema["properties"]), schema.get("required")) == ({"pk", "team"}, None)
    assert call(server, "retrieve") == {}
    assert call(server, "retrieve", pk=2) == {"pk": 2}
    assert call(server, "retrieve", pk=2, team="a") == {"pk": 2, "team": "a"}
    assert call(server, "retrieve", team="a") is None
    assert faults(server) == {}


@pytest.mark.usefixtures("routed")
def test_a_view_without_a_key_has_the_variables_of_all_its_urls():
    server = make_server(Latest)

    assert call(server, "get") == {"path": "/latest/"}
    assert call(server, "get", year=2025) == {"year": 2025, "path": "/latest/2025/"}


@pytest.mark.usefixtures("routed")
def test_a_variable_that_the_site_names_is_in_each_url():
    server = make_server(Person, path={"team": {"type": "string"}})

    assert set(server.tool_input_schema("retrieve")["required"]) == {"pk", "team"}
    assert call(server, "retrieve", pk=2, team="a") == {"pk": 2, "team": "a"}


@pytest.mark.usefixtures("routed")
def test_a_function_gets_converted_variables():
    server = make_server(year.cls, path={"year": {"type": ["string", "integer"]}})

    assert call(server, "get", year="2025") == {"year": 2025}
    assert call(server, "get", year="2025;") is None


def shown(server: MCPServer, user: Any = None) -> list[str]:
    return [each["name"] for each in server.list_tools(user=user or AnonymousUser())]


def faults(server: MCPServer) -> dict[str, str]:
    found = [each for each in run_checks(tags=["django_mcp"]) if each.obj is server]
    assert {each.id for each in found} <= {"django_mcp.drf.W003"}
    return {each.msg.partition(" cannot be called: ")[2]: str(each.hint) for each in found}


@pytest.mark.usefixtures("routed")
def test_an_action_without_a_url_is_hidden_unless_the_site_names_it():
    server = make_server(Partly)

    assert shown(server) == ["list"]
    assert list(faults(server)) == ["the site has URLs for this view, but none for this action."]
    with pytest.raises(LookupError, match="Unknown tool"):
        server.call_tool("retrieve", {"pk": "1"}, user=AnonymousUser())
    assert shown(make_server(Partly, listed_if=lambda user: True)) == ["list"]

    named = make_server(Partly, actions=["retrieve"])
    assert call(named, "retrieve", pk="1") == {"pk": "1"}
    assert faults(named) == {}


@pytest.mark.usefixtures("routed")
def test_a_tool_that_lacks_a_variable_of_every_url_does_not_run():
    server = make_server(Nested, actions=["list"], path={"other_pk": {"type": "integer"}})

    assert call(server, "list", other_pk=1) is None
    assert list(faults(server)) == ["no URL of it has exactly the variables that the tool has."]


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize("decorator", [require_safe, require_GET, require_http_methods(["GET"])])
def test_a_decorator_in_the_urlconf_that_refuses_methods_hides_the_view(decorator: Any):
    class Listed(Plain):
        def post(self, request: Any, **kwargs: Any) -> Response:
            calls.append({"posted": True})
            return Response({})

    urlpatterns.append(path("listed/<slug:slug>", decorator(Listed.as_view())))
    try:
        server = make_server(Listed)
        assert shown(server) == []
        assert "require_http_methods" in "".join(faults(server))
    finally:
        urlpatterns.pop()


@pytest.mark.usefixtures("routed")
def test_a_view_with_a_login_decorator_in_the_urlconf_is_hidden():
    class Decorated(Plain):
        pass

    urlpatterns.append(path("decorated/", login_required(Decorated.as_view())))
    try:
        server = make_server(Decorated)
        assert shown(server) == []
        assert shown(make_server(Decorated, actions=["get"])) == []
        (hint,) = faults(server).values()
        assert "name='dispatch'" in hint
    finally:
        urlpatterns.pop()


class StaffOnly(View):
    view: Any = None

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return self.view(request, **kwargs) if request.user.is_staff else HttpResponseForbidden()


def _guard_by_attribute(view: Any) -> Any:
    guard: Any = type("Guard", (StaffOnly,), {"view": staticmethod(view)})
    return guard.as_view()


def _guard_by_option(view: Any) -> Any:
    return StaffOnly.as_view(view=view)


def _guard_by_class_method(view: Any) -> Any:
    class Guard:
        views: ClassVar[Any] = {"get": view}

        @classmethod
        def answer(cls, request: Any, **kwargs: Any) -> Any:
            return cls.views["get"](request, **kwargs)

    return Guard.answer


def _guard_by_object(view: Any) -> Any:
    class Guard:
        guarded = staticmethod(view)

        def __call__(self, request: Any, **kwargs: Any) -> Any:
            return self.guarded(request, **kwargs)

    return Guard()


@pytest.mark.usefixtures("routed")
@pytest.mark.parametrize(
    "guard", [_guard_by_attribute, _guard_by_option, _guard_by_class_method, _guard_by_object]
)
def test_a_view_that_an_attribute_of_another_class_has_is_hidden(guard: Any):
    class Held(Plain):
        pass

    urlpatterns.append(path("held/", guard(Held.as_view())))
    try:
        server = make_server(Held)
        assert shown(server) == []
        assert "no tool can run the decorator" in "".join(faults(server))
    finally:
        urlpatterns.pop()


def test_a_redirect_to_the_login_page_is_an_error():
    @method_decorator(login_required, name="dispatch")
    class Decorated(Plain):
        pass

    server = make_server(Decorated)
    result = server.call_tool("get", {}, user=AnonymousUser())
    assert (result.is_error, calls) == (True, [])
    assert "redirects" in result.raw["content"][0]["text"]


@pytest.mark.usefixtures("routed")
@pytest.mark.django_db
def test_options_of_as_view_in_the_urlconf_apply():
    server = make_server(Restricted)
    staff = User.objects.create_user("staff", is_staff=True)

    assert shown(server) == []
    assert shown(server, staff) == ["get"]
    server = make_server(Restricted, listed_if=lambda user: True)
    result = server.call_tool("get", {}, user=AnonymousUser())
    assert (result.is_error, calls) == (True, [])


def test_a_query_is_no_longer_than_a_url_can_be(settings: Any):
    server = make_server(
        Nested,
        actions=["list"],
        query={"list": {"q": {"type": "string"}, "ids": {"type": "array", "items": {}}}},
    )

    assert call(server, "list", q="x" * 8000) == {}
    for arguments in ({"q": "x" * 9000}, {"q": "ä" * 3000}, {"ids": [1] * 1001}):
        calls.clear()
        result = server.call_tool("list", arguments, user=AnonymousUser())
        assert (result.is_error, calls) == (True, [])


SLUG = {"slug": {"type": "string"}}


class Counted:
    """A view of the site that counts how often something looks at what it wraps."""

    looks = 0

    def __call__(self, request: Any) -> Any: ...

    @property
    def __wrapped__(self) -> Any:
        type(self).looks += 1
        raise AttributeError


@pytest.mark.usefixtures("routed")
def test_further_tools_and_calls_do_not_look_into_the_views_of_a_site_again():
    def use(server: MCPServer) -> int:
        assert "get" in shown(server)
        assert call(server, "get", slug="a") == {"slug": "a", "path": "/plain/a"}
        return Counted.looks

    urlpatterns.append(path("counted/", Counted()))
    try:
        server = make_server(Plain, path=SLUG)
        looks = use(server)
        viewset_tools(Files, server=server, prefix="files")
        viewset_tools(Echo, server=server, prefix="echo")
        assert use(server) == use(make_server(Plain, path=SLUG)) == looks
    finally:
        urlpatterns.pop()


@pytest.mark.usefixtures("routed")
def test_a_callback_with_deeply_nested_values_is_no_view():
    nested: Any = []
    for _level in range(2000):
        nested = [nested]
    urlpatterns.append(path("nested/", partial(year, nested)))
    try:
        assert call(make_server(Plain, path=SLUG), "get", slug="a") is not None
    finally:
        urlpatterns.pop()


def test_languages_share_the_patterns_of_a_urlconf_without_translated_ones():
    def find(patterns: list[Any]) -> list[list[Any]]:
        resolver, found = make_urlconf(patterns), []
        for language in ("en", "de", "en"):
            with override(language):
                found.append(find_routes(resolver))
        return found

    plain = find([path("plain/", year)])
    translated = find([path(gettext_lazy("Yes"), year)])
    prefixed = find(i18n_patterns(path("plain/", year)))

    assert plain[0] is plain[1] is plain[2]
    for english, german, again in (translated, prefixed):
        assert english is again
        assert english[0].forms != german[0].forms
