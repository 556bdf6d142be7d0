"""What `manage.py check` says of pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.core.checks import run_checks

from django_mcp import MCPServer
from django_mcp.extensions.apps import App, ArgumentsForm, Card, Chart, Confirm, Csp, Table
from example_project.shop.models import Order

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db


def tell() -> dict[str, Any]:
    """Tell of one."""
    return {"count": 1}


def say() -> str:
    """Say one."""
    return "one"


def find_messages() -> dict[str, str]:
    return {
        str(message.id): message.msg
        for message in run_checks(tags=["django_mcp"])
        if str(message.id).startswith("django_mcp.apps.")
    }


@pytest.fixture
def server() -> Iterator[MCPServer]:
    server = MCPServer("pages", public=True)
    yield server
    # Checks look at all servers that are left.
    for name in list(server.registry.tools):
        server.remove_tool(name)


def test_a_page_in_order_is_not_reported(server: MCPServer):
    app = App(
        template="shop/sales.html",
        fragment="shop/rows.html",
        csp=Csp(connect=["https://api.example"]),
        permissions=["camera"],
    )
    server.register_tool(tell, app=app, read_only=True)

    assert find_messages() == {}


@pytest.mark.parametrize(
    "app", [App(template="no.html"), App(template="shop/sales.html", fragment="no.html")]
)
def test_a_missing_template(server: MCPServer, app: App):
    server.register_tool(tell, app=app, read_only=True)

    assert "no.html, which no engine of TEMPLATES finds" in find_messages()["django_mcp.apps.E001"]


def test_a_page_that_fails_in_one_language(server: MCPServer, templates: Path, settings: Any):
    settings.LANGUAGES = [("en", "English"), ("de", "German")]
    page = "{% load i18n %}{% get_current_language as L %}{% if L == 'de' %}{% include 'no' %}{% endif %}"
    (templates / "sales.html").write_text(page)
    server.register_tool(tell, app="shop/sales.html", read_only=True)

    assert "cannot be rendered in de" in find_messages()["django_mcp.apps.E002"]


def test_a_static_file_that_is_missing(server: MCPServer, templates: Path):
    (templates / "sales.html").write_text("{% load mcp_apps %}{% mcp_style 'no.css' %}")
    server.register_tool(tell, app="shop/sales.html", read_only=True)

    assert "There is no static file no.css" in find_messages()["django_mcp.apps.E002"]


def test_a_tool_without_structured_output(server: MCPServer):
    server.register_tool(say, app="shop/sales.html", read_only=True)

    assert "no structured output" in find_messages()["django_mcp.apps.W001"]


def test_an_address_outside_of_the_page(server: MCPServer, templates: Path):
    (templates / "sales.html").write_text(
        "<html lang=en><title>A</title><img alt=A src='https://a.tiles.example/1.png'>"
    )
    server.register_tool(tell, name="one", app="shop/sales.html", read_only=True)
    assert "loads https://a.tiles.example/1.png" in find_messages()["django_mcp.apps.W002"]

    server.remove_tool("one")
    app = App(template="shop/sales.html", csp=Csp(resource=["https://*.tiles.example"]))
    server.register_tool(tell, name="one", app=app, read_only=True)
    assert find_messages() == {}


def test_a_fault_of_the_page(server: MCPServer, templates: Path):
    (templates / "sales.html").write_text("<html lang=en><title>A</title><form action='/'></form>")
    server.register_tool(tell, app="shop/sales.html", read_only=True)

    assert "<form action>" in find_messages()["django_mcp.apps.W003"]


def test_a_tool_for_pages_that_no_page_calls(server: MCPServer, templates: Path):
    server.register_tool(tell, app="shop/sales.html", read_only=True)
    server.register_tool(tell, name="rows", visible_to="app", read_only=True)
    assert "no page of the server names it" in find_messages()["django_mcp.apps.W004"]

    page = "{% load mcp_apps %}{% mcp_app title='A' %}<button data-mcp-call=rows></button>{% endmcp_app %}"
    (templates / "rows.html").write_text(page)
    server.register_tool(tell, name="other", app="shop/rows.html", read_only=True)
    assert find_messages() == {}


@pytest.mark.parametrize(
    "content",
    [
        "<button data-mcp-call='rows'></button>",
        "<form data-mcp-form=rows></form>",
        "<script>mcp.call('rows')</script>",
        "<script>const name = `rows`</script>",
        "{% if never %}<button data-mcp-call='rows'></button>{% endif %}",
        "{% include 'shop/row.html' %}",
        "<button data-mcp-call='{{ name }}'></button>",
    ],
)
def test_a_page_calls_a_tool_in_many_ways(server: MCPServer, templates: Path, content: str):
    (templates / "row.html").write_text(
        "{% for row in rows %}<b data-mcp-call=rows></b>{% endfor %}"
    )
    page = "{% load mcp_apps %}{% mcp_app title='A' %}" + content + "{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    server.register_tool(tell, app="shop/sales.html", read_only=True)
    server.register_tool(tell, name="rows", visible_to="app", read_only=True)

    assert find_messages() == {}


@pytest.mark.parametrize(
    "content",
    ["<p>Rows and more_rows</p>", "<script>rows('more_rows')</script>", "<p class='rows'></p>"],
)
def test_a_page_that_only_has_the_name_of_a_tool_calls_it_not(
    server: MCPServer, templates: Path, content: str
):
    page = "{% load mcp_apps %}{% mcp_app title='Rows' %}" + content + "{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    server.register_tool(tell, app="shop/sales.html", read_only=True)
    server.register_tool(tell, name="rows", visible_to="app", read_only=True)

    assert find_messages().keys() == {"django_mcp.apps.W004"}


def test_the_script_of_every_page_calls_no_tool(server: MCPServer):
    server.register_tool(tell, app="shop/sales.html", read_only=True)
    # The client script has these in quotation marks.
    for name in ("result", "called", "error"):
        server.register_tool(tell, name=name, visible_to="app", read_only=True)

    assert find_messages().keys() == {"django_mcp.apps.W004"}


def test_a_page_that_calls_a_tool_that_is_not_there(server: MCPServer, templates: Path):
    page = "<button data-mcp-call=tel></button>{% for row in rows %}<b data-mcp-call='{{ x }}'>"
    (templates / "rows.html").write_text(page + "</b>{% endfor %}")
    app = App(template="shop/sales.html", fragment="shop/rows.html")
    server.register_tool(tell, app=app, read_only=True)

    [(id, told)] = find_messages().items()

    assert id == "django_mcp.apps.W010"
    assert "shop/rows.html calls 'tel', which is no tool of the server pages" in told


def turn(page: int, month: str = "") -> dict[str, Any]:
    """Turn to a page."""
    return {"page": page}


def take(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take what is given."""
    return arguments


INPUTS = "<input id=a name=month aria-label=A><input id=b class=b name=word aria-label=B>"
CALLS = [
    ("<button data-mcp-call=turn {% mcp_args pgae=2 %}>A</button>", "'pgae'"),
    ("<button {% mcp_args page=2 mnth='a=b' %} data-mcp-call='turn'>A</button>", "'mnth'"),
    ("""<button data-mcp-call=turn data-mcp-args='{"pageNo": 1}'>A</button>""", "'pageNo'"),
    (
        "<button data-mcp-call=turn data-mcp-with='#a, #b'>A</button>{% include 'shop/inputs.html' %}",
        "'word'",
    ),
]


@pytest.mark.parametrize(("content", "told"), CALLS)
def test_a_page_that_calls_with_what_is_no_argument(
    server: MCPServer, templates: Path, content: str, told: str
):
    page = "{% load mcp_apps %}{% mcp_app title='A' %}" + content + "{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    (templates / "inputs.html").write_text(INPUTS)
    server.register_tool(tell, app="shop/sales.html", read_only=True)
    server.register_tool(turn, visible_to="app", read_only=True)

    [(id, message)] = find_messages().items()

    assert id == "django_mcp.apps.W011"
    assert (
        message
        == f"The template shop/sales.html calls turn with {told}, which is no argument of it."
    )


def test_a_part_of_a_page_that_calls_with_what_is_no_argument(server: MCPServer, templates: Path):
    call = "<button data-mcp-call=turn {% mcp_args pgae=row %}>A</button>"
    (templates / "rows.html").write_text(
        "{% load mcp_apps %}{% for row in result.rows %}" + call + "{% endfor %}"
    )
    app = App(template="shop/sales.html", fragment="shop/rows.html")
    server.register_tool(tell, app=app, read_only=True)
    server.register_tool(turn, visible_to="app", read_only=True)

    assert "'pgae'" in find_messages()["django_mcp.apps.W011"]


@pytest.mark.parametrize(
    "content",
    [
        "<button data-mcp-call=turn {% mcp_args page=2 month='a b=c' %} {% if x %}disabled{% endif %}>A</button>",
        "<button data-mcp-call=turn data-mcp-args='{{ arguments|mcp_json }}'>A</button>{# ' #}",
        "<button data-mcp-call='{{ name }}' {% mcp_args pgae=2 %}>A</button>",
        "<button data-mcp-call=open {% mcp_args pgae=2 %}>A</button>",
        "<button data-mcp-call=turn data-mcp-with='.b, #a'>A</button>{% include 'shop/inputs.html' %}",
        "<button {% if x %}data-mcp-call=other{% else %}data-mcp-call=turn{% endif %} {% mcp_args page=2 %}>A</button>",
    ],
)
def test_a_call_whose_arguments_are_right_or_unknown_is_not_reported(
    server: MCPServer, templates: Path, content: str
):
    page = "{% load mcp_apps %}{% mcp_app title='A' %}" + content + "{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    (templates / "inputs.html").write_text(INPUTS)
    server.register_tool(tell, app="shop/sales.html", read_only=True)
    server.register_tool(turn, read_only=True)
    server.register_tool(tell, name="other", read_only=True)
    open_schema = {"type": "object", "properties": {"page": {"type": "integer"}}}
    server.register_tool(take, name="open", read_only=True, input_schema=open_schema)

    assert "django_mcp.apps.W011" not in find_messages()


@pytest.mark.parametrize(
    ("row", "id", "told"),
    [
        ("<img src='https://a.example/1.png' alt=A>", "W002", "loads https://a.example/1.png"),
        ("<b style='background: url(/a.png)'></b>", "W002", "loads /a.png"),
        ("<p onclick='go()'>", "W003", "<p onclick> is a handler"),
        ("<a href='javascript:go()'>A</a>", "W003", "<a href> is a script"),
    ],
)
def test_a_part_of_a_page_with_a_fault(
    server: MCPServer, templates: Path, row: str, id: str, told: str
):
    source = "{% for row in result.rows %}<img src='{{ row }}' alt=''>" + row + "{% endfor %}"
    (templates / "rows.html").write_text(source)
    app = App(template="shop/sales.html", fragment="shop/rows.html")
    server.register_tool(tell, app=app, read_only=True)

    [(found, message)] = find_messages().items()

    assert found == f"django_mcp.apps.{id}"
    assert "The template shop/rows.html" in message
    assert told in message


def test_images_inside_of_a_page_are_not_reported(server: MCPServer, templates: Path):
    image = "data:image/png;base64,iVBORw0KGgo="
    (templates / "sales.html").write_text(
        '{% load mcp_apps %}{% mcp_app title="Sales" %}'
        f'<img src="{image}" srcset="{image} 1x, {image} 2x" alt="">'
        "{% endmcp_app %}"
    )
    server.register_tool(tell, app="shop/sales.html", read_only=True)

    assert find_messages() == {}


@pytest.mark.parametrize(
    ("content", "variable"),
    [
        ("Hello {{ user }}", "user"),
        ("{{ request.user.username|upper }}", "request.user.username"),
        ("{% if user.is_staff %}<p>Staff</p>{% endif %}", "user.is_staff"),
        ("{% if not 1 or perms.shop %}<p>Shop</p>{% endif %}", "perms.shop"),
        ("{% include 'shop/_menu.html' %}", "user.email"),
    ],
)
def test_a_page_that_names_its_user(
    server: MCPServer, templates: Path, content: str, variable: str
):
    page = "{% load mcp_apps %}{% mcp_app title='A' %}" + content + "{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    (templates / "_menu.html").write_text("{{ user.email }}")
    server.register_tool(tell, app="shop/sales.html", read_only=True)

    told = find_messages()["django_mcp.apps.W015"]
    assert told == (
        f"The page shop/sales.html uses {variable}, which is empty, since hosts keep one page for all users."
    )


@pytest.mark.parametrize(
    "content",
    [
        "{% for user in users %}{{ user }}{% endfor %}",
        "{% with user='Ann' %}{% include 'shop/_menu.html' %}{% endwith %}",
        "{{ users }}{# {{ user }} #}{% if 'user' %}a{% endif %}",
    ],
)
def test_other_variables_of_a_page_are_not_told(server: MCPServer, templates: Path, content: str):
    page = "{% load mcp_apps %}{% mcp_app title='A' %}" + content + "{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    (templates / "_menu.html").write_text("{{ user.email }}")
    (templates / "rows.html").write_text("{{ user }}")
    app = App(template="shop/sales.html", fragment="shop/rows.html")
    server.register_tool(tell, app=app, read_only=True)

    assert "django_mcp.apps.W015" not in find_messages()


@pytest.mark.parametrize(
    ("content", "is_told"),
    [
        ("<h1>Sales</h1>", True),
        ("<div data-mcp-result></div>", False),
        ("<button data-mcp-call=tell data-mcp-swap='#a'>A</button><p id=a></p>", False),
        ("<script>mcp.on('result', show)</script>", False),
    ],
)
def test_a_fragment_without_a_place(
    server: MCPServer, templates: Path, content: str, is_told: bool
):
    page = "{% load mcp_apps %}{% mcp_app title='A' %}" + content + "{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    app = App(template="shop/sales.html", fragment="shop/rows.html")
    server.register_tool(tell, app=app, read_only=True)

    told = find_messages().get("django_mcp.apps.W016", "")
    assert (
        "the page shop/sales.html has no place for the fragment shop/rows.html" in told
    ) is is_told


def test_a_page_without_a_place_for_the_question(server: MCPServer, templates: Path):
    (templates / "bare.html").write_text(
        '{% load mcp_apps %}{% mcp_app title="Bare" %}<h1>Bare</h1>{% endmcp_app %}'
    )
    server.register_tool(say, app="shop/bare.html", confirm="app")

    assert "no place for the question" in find_messages()["django_mcp.apps.W009"]


def test_a_tool_that_asks_on_the_ready_made_page_is_not_reported(server: MCPServer):
    server.register_tool(say, confirm="app")

    assert find_messages() == {}


class CountForm(forms.Form):
    """A form."""

    count = forms.IntegerField()


def send(form: CountForm) -> dict[str, Any]:
    """Send a count."""
    return {}


def test_a_form_in_order_is_not_reported(server: MCPServer):
    server.register_tool(send, app=App(form=CountForm), visible_to="app", read_only=True)

    assert find_messages() == {}


class NoteForm(forms.ModelForm):
    """A form of an object."""

    class Meta:
        model = Order
        fields = ("note",)


def write(order: str, form: NoteForm) -> dict[str, Any]:
    """Write a note."""
    return {"order": order, "note": form.save().note}


async def awrite(order: str, form: NoteForm) -> dict[str, Any]:
    """Write a note."""
    return {"order": order, "note": form.cleaned_data["note"]}


def add(form: NoteForm, count: int = 1) -> dict[str, Any]:
    """Add an order."""
    return {"note": form.save().note}


def add_for(customer: str, form: NoteForm) -> dict[str, Any]:
    """Add an order of a customer."""
    form.instance.number = customer
    return {"note": form.save().note}


def add_later(customer: str, form: NoteForm) -> dict[str, Any]:
    """Add an order of a customer."""
    return {"note": form.save(commit=False).note}


def find_order(user: Any, order: str) -> Order:
    """Find an order."""
    return Order.objects.get(number=order)


@pytest.mark.parametrize("function", [write, awrite])
def test_a_form_of_a_model_that_changes_no_object(server: MCPServer, function: Any):
    server.register_tool(function, app=App(form=NoteForm))

    [(id, told)] = find_messages().items()

    assert id == "django_mcp.apps.I001"
    assert "the form opens empty and form.save() adds an object, whatever order says" in told


@pytest.mark.parametrize(
    ("function", "initial"),
    [(write, find_order), (add, None), (add_for, None), (add_later, None)],
)
def test_a_form_of_a_model_that_adds_or_changes_an_object_is_not_reported(
    server: MCPServer, function: Any, initial: Any
):
    server.register_tool(function, app=App(form=NoteForm, initial=initial))

    assert find_messages() == {}


def say_nothing(user: Any) -> None:
    """Forget to return."""
    str(user)


def wipe() -> str:
    """Wipe everything."""
    return "wiped"


@pytest.mark.parametrize("option", ["state", "question"])
def test_a_function_of_a_question_that_returns_nothing(server: MCPServer, option: str):
    server.register_tool(wipe, confirm=Confirm(**{option: say_nothing}))

    told = find_messages()["django_mcp.apps.W014"]
    assert "say_nothing" in told
    assert f"never returns a value, and is Confirm({option}=...) of" in told


@pytest.mark.parametrize(
    "confirm",
    [
        Confirm(),
        Confirm(question="Sure?"),
        Confirm(question=lambda user: "Sure?", state=lambda user: user.pk),
    ],
)
def test_a_question_in_order_is_not_reported(server: MCPServer, confirm: Confirm):
    server.register_tool(wipe, confirm=confirm)

    assert "django_mcp.apps.W014" not in find_messages()


def test_a_function_that_opens_a_form_and_returns_nothing(server: MCPServer):
    server.register_tool(add, app=App(form=NoteForm, initial=say_nothing))

    assert "is App(initial=...) of" in find_messages()["django_mcp.apps.W014"]


def test_a_page_without_a_place_for_the_fields(server: MCPServer, templates: Path):
    page = "{% load mcp_apps %}{% mcp_app title='A' %}<h1>A</h1>{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    server.register_tool(send, app=App(form=CountForm, template="shop/sales.html"), read_only=True)

    assert "has no place for the form of send" in find_messages()["django_mcp.apps.E003"]


def test_a_form_that_starts_with_what_is_no_tool(server: MCPServer):
    server.register_tool(tell, name="get_one", read_only=True)
    app = App(form=ArgumentsForm(read="get_onr"))
    server.register_tool(tell, name="one", app=app, read_only=True)

    assert "the result of get_onr, which is no tool" in find_messages()["django_mcp.apps.E004"]


def test_a_form_for_what_is_no_tool(server: MCPServer, templates: Path):
    page = "{% load mcp_apps %}{% mcp_app title='A' %}<div data-mcp-form=tel></div>{% endmcp_app %}"
    (templates / "sales.html").write_text(page)
    server.register_tool(tell, app="shop/sales.html", read_only=True)

    assert "calls 'tel', which is no tool" in find_messages()["django_mcp.apps.W010"]


SCHEMA = {
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"type": "object", "properties": {"number": {}}}},
        "customer": {"type": "object", "properties": {"name": {}}},
    },
}


@pytest.mark.parametrize(
    ("app", "told"),
    [
        (Table(columns=["number", "nmber"]), "shows 'nmber'"),
        (Table(rows="row"), "shows 'row'"),
        (Card(fields=["customer.nme"]), "shows 'customer.nme'"),
        (Chart(x="month"), "shows 'month'"),
    ],
)
def test_a_ready_made_page_that_shows_what_is_not_there(server: MCPServer, app: App, told: str):
    server.register_tool(tell, app=app, read_only=True, output_schema=SCHEMA)

    assert told in find_messages()["django_mcp.apps.W007"]


@pytest.mark.parametrize(
    ("app", "told"),
    [
        (Table(key="number", actions=["unknown"]), "no tool 'unknown' is there"),
        (Card(actions=["tell"]), "no key= is given"),
    ],
)
def test_a_ready_made_page_with_buttons_that_nobody_sees(server: MCPServer, app: App, told: str):
    server.register_tool(tell, app=app, read_only=True, output_schema=SCHEMA)

    assert told in find_messages()["django_mcp.apps.W008"]


@pytest.mark.parametrize("app", [Table(), Chart(), Card(key="customer.name", actions=["tell"])])
def test_a_ready_made_page_in_order_is_not_reported(server: MCPServer, app: App):
    server.register_tool(tell, app=app, read_only=True, output_schema=SCHEMA)

    assert find_messages() == {}


@pytest.mark.parametrize("name", ["sales", "rows"])
def test_a_template_with_a_wrong_tag(server: MCPServer, templates: Path, name: str):
    (templates / f"{name}.html").write_text("{% nothing %}")
    app = App(template="shop/sales.html", fragment="shop/rows.html")
    server.register_tool(tell, app=app, read_only=True)

    assert f"The template shop/{name}.html" in find_messages()["django_mcp.apps.E002"]
