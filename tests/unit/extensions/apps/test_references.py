"""What pages refer to, and is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from typing_extensions import TypedDict

from django_mcp import Context, MCPServer
from django_mcp.extensions.apps import App
from django_mcp.extensions.apps.site.references import find_lost
from django_mcp.test import MCPClient

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


class Row(TypedDict):
    product: str


class Sales(TypedDict):
    month: str
    rows: list[Row]


def sales(month: str = "") -> Sales:
    """Tell the sales."""
    return {"month": month, "rows": [{"product": "Teapot"}]}


def more(page: int = 1, word: str = "") -> Sales:
    """Tell more sales."""
    return sales()


def anything() -> dict[str, Any]:
    """Tell anything."""
    return {}


@pytest.fixture
def server(templates: Path) -> Iterator[MCPServer]:
    server = MCPServer("pages", public=True)
    app = App(template="shop/sales.html", fragment="shop/rows.html")
    server.register_tool(sales, app=app, read_only=True)
    part = App(fragment="shop/rows.html")
    server.register_tool(more, visible_to="app", app=part, read_only=True)
    (templates / "rows.html").write_text(
        "{% for row in result.rows %}{{ row.product }}{% endfor %}"
    )
    yield server
    # Checks look at all servers that are left.
    for name in list(server.registry.tools):
        server.remove_tool(name)


def write_page(templates: Path, content: str) -> None:
    (templates / "sales.html").write_text(
        "{% load mcp_apps %}{% mcp_app title='A' %}<div data-mcp-result></div>"
        f"<button data-mcp-call=more>A</button>{content}{{% endmcp_app %}}"
    )


def find_messages(server: MCPServer) -> list[tuple[str, str]]:
    """Return what the check says of one server."""
    return [
        (
            "W013" if lost.is_value else "W012",
            f"{lost.template} has {lost.reference}: {lost.problem}",
        )
        for lost in find_lost(server.registry.registered["tools"])
    ]


def test_the_check_tells_of_all_servers(server: MCPServer, templates: Path):
    write_page(templates, "<b data-mcp-text=mnth data-mcp-clear='#mor'></b><p id=more></p>")

    told = {
        str(each.id): str(each.hint)
        for each in run_checks(tags=["django_mcp"])
        if "mor" in each.msg or "mnth" in each.msg
    }

    assert "Did you mean 'more'?" in told["django_mcp.apps.W012"]
    assert "Did you mean 'month'?" in told["django_mcp.apps.W013"]


def test_a_tool_with_a_context_may_give_its_part_variables(server: MCPServer, templates: Path):
    def telling(ctx: Context) -> Sales:
        """Tell the sales."""
        return sales()

    (templates / "told.html").write_text("{{ month }}")
    server.register_tool(telling, app=App(template="shop/sales.html", fragment="shop/told.html"))
    write_page(templates, "")

    assert find_messages(server) == []


LOST = [
    ("<b data-mcp-text=mnth></b>", "W013", "'mnth'"),
    ("<b data-mcp-text='month.name.first'></b>", None, ""),
    ("<p id=more></p><button data-mcp-call=more data-mcp-swap='#mor'>A</button>", "W012", "'mor'"),
    ("<button data-mcp-call=more data-mcp-with='#nope'>A</button>", "W012", "'nope'"),
    ("<p id=a></p><button data-mcp-call=more data-mcp-with='#a'>A</button>", "W012", "no value"),
    ("<button data-mcp-clear='#gone'>A</button>", "W012", "'gone'"),
    ("<div data-mcp-form=more data-mcp-swap='.a #gone'></div>", "W012", "'gone'"),
    ("<b data-mcp-call=more data-mcp-after='more no_such_tool'></b>", "W012", "'no_such_tool'"),
    ("{% include 'shop/inner.html' %}", "W012", "'inner'"),
    ("<b data-mcp-txt=month></b>", "W012", "data-mcp-txt: nothing reads"),
    ("<button data-mcp-cal=more>A</button>", "W012", "data-mcp-cal: nothing reads"),
    ("<b data-mcp-shelf=5 data-mcp-row=2></b>", None, ""),
]


@pytest.mark.parametrize(("content", "id", "told"), LOST)
def test_what_a_page_refers_to_is_there(
    server: MCPServer, templates: Path, content: str, id: str | None, told: str
):
    (templates / "inner.html").write_text("<button data-mcp-clear='#inner'>A</button>")
    write_page(templates, content)

    messages = find_messages(server)

    assert [found for found, _ in messages] == ([id] if id else [])
    assert all(told in message for _, message in messages)


@pytest.mark.parametrize(
    ("fragment", "id", "told"),
    [
        ("{{ month }}", "W013", "a variable 'month'"),
        ("{{ reslt.month }}", "W013", "a variable 'reslt'"),
        ("{% for row in rows %}{% endfor %}", "W013", "a variable 'rows'"),
        ("{{ month|default:'' }}{% if month %}{% endif %}{{ title }}{{ user }}", None, ""),
        ("{% with month=result.month %}{{ month }}{% endwith %}", None, ""),
        ("{% for month, rows in result.items %}{{ month }}{{ rows }}{% endfor %}", None, ""),
        ("{% for row in result.rowz %}{% endfor %}", "W013", "'rowz'"),
        ("{% for row in result.rows %}{{ row.produkt|upper }}{% endfor %}", "W013", "'produkt'"),
        ("{% for r in result.rows %}{% if r.a == 1 and r.product %}{% endif %}{% endfor %}", "W013", "'a'"),
        ("{% with rows=result.rows %}{{ rows.0.produkt }}{% endwith %}", None, ""),
        ("{% with all=result %}{% if 1 %}{{ all.mnth }}{% endif %}{% endwith %}", "W013", "'mnth'"),
        ("{{ arguments.mnth }}", "W013", "'mnth'"),
        ("{% include 'shop/inner.html' with sold=result %}", "W013", "'nothing'"),
        ("<b data-mcp-text=mnth></b>", "W013", "'mnth'"),
        ("{% for row in result.rows %}<b data-mcp-clear='#gone'></b>{% endfor %}", "W012", "'gone'"),
        ("<b data-mcp-call=more data-mcp-after=mor></b>", "W012", "'mor'"),
    ],
)  # fmt: skip
def test_what_a_part_refers_to_is_there(
    server: MCPServer, templates: Path, fragment: str, id: str | None, told: str
):
    write_page(templates, "")
    (templates / "inner.html").write_text("{{ sold.nothing }}")
    (templates / "rows.html").write_text(fragment)

    messages = find_messages(server)

    assert {found for found, _ in messages} == ({id} if id else set())
    assert all(told in message for _, message in messages)


@pytest.mark.parametrize(
    "content",
    [
        "<b data-mcp-text='month'></b><b data-mcp-text='rows.0.product'></b>",
        "<p id=in-row></p><b data-mcp-clear='#in-row, #row-7, .any, [data-x]'></b>",
        "<script>const box = document.createElement('p')</script><b data-mcp-clear='#box'></b>",
        "<b data-mcp-clear='#mcp-detail'></b><b data-mcp-after='sales more' data-mcp-call=more></b>",
        "<button data-mcp-call=anything>A</button><b data-mcp-text='whatever'></b>",
        "<input id=q name=word aria-label=A><b data-mcp-call=more data-mcp-with='#q'></b>",
        "{# <b data-mcp-clear='#gone'></b> #}<!-- <b data-mcp-clear='#gone'></b> -->",
        "{% if '' %}<b data-mcp-clear='#gone'></b>{% endif %}",
        "{% for n in '12' %}<p id='n{{ n }}'></p><b data-mcp-clear='#n{{ n }}'></b>{% endfor %}",
    ],
)
def test_what_may_be_there_is_not_reported(server: MCPServer, templates: Path, content: str):
    server.register_tool(anything, read_only=True)
    write_page(templates, content)
    (templates / "rows.html").write_text(
        "{% for row in result.rows %}<p id='row-{{ forloop.counter }}'>{{ row.product }}</p>"
        "{% for key, value in row.items %}{{ key }}{{ value.any }}{% endfor %}"
        "<b data-mcp-clear='#{{ row.product }}'></b>{% endfor %}{{ result.month|default:arguments.page }}"
    )

    assert find_messages(server) == []


def test_the_site_may_write_elements_into_a_part(server: MCPServer, templates: Path):
    app = App(fragment="shop/html.html", context=lambda rendered: {"html": "<p id=gone></p>"})
    server.register_tool(anything, visible_to="app", app=app, read_only=True)
    (templates / "html.html").write_text("{{ html|safe }}")
    write_page(templates, "<b data-mcp-call=anything></b><b data-mcp-clear='#gone'></b>")

    assert find_messages(server) == []


def test_a_part_of_two_pages_may_refer_to_one_of_them(server: MCPServer, templates: Path):
    write_page(templates, "<p id=box></p>")
    (templates / "rows.html").write_text("<b data-mcp-clear='#box'></b>")
    page = "{% load mcp_apps %}{% mcp_app title='B' %}<div data-mcp-result></div>{% endmcp_app %}"
    (templates / "other.html").write_text(page)
    app = App(template="shop/other.html", fragment="shop/rows.html")
    server.register_tool(sales, name="other", app=app, read_only=True)

    assert find_messages(server) == []


def test_a_form_into_an_argument_that_is_not_there(server: MCPServer, templates: Path):
    write_page(templates, "<div data-mcp-form=more data-mcp-into=pgae></div>")
    client = MCPClient(server=server, revision="2026-07-28")

    with pytest.raises(AssertionError, match="it calls more with 'pgae', which is no argument"):
        client.assert_app("sales")


@pytest.mark.parametrize("content", [content for content, id, _ in LOST if id])
def test_a_test_of_the_page_fails(server: MCPServer, templates: Path, content: str):
    (templates / "inner.html").write_text("<button data-mcp-clear='#inner'>A</button>")
    write_page(templates, content)
    client = MCPClient(server=server, revision="2026-07-28")

    with pytest.raises(AssertionError, match=r"shop/sales\.html has data-mcp-"):
        client.assert_app("sales")
