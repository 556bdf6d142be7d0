"""Forms as apps: what opens them, what they start with, and what is wrong with what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from django import forms
from django.contrib.auth.models import Group, User

from django_mcp import Context, MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.extensions.apps import App, ArgumentsForm
from django_mcp.inprocess import MCPError
from django_mcp.models import APIKey
from django_mcp.registry.problems import RegistrationError
from django_mcp.test import AsyncMCPClient, MCPClient

HOST = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}


class QuantityForm(forms.Form):
    """How much of what."""

    quantity = forms.IntegerField(min_value=1, max_value=99, help_text="Pieces")
    colour = forms.ChoiceField(choices=[("r", "Red"), ("b", "Blue")], required=False)
    secret = forms.CharField(widget=forms.HiddenInput, max_length=5, required=False)
    note = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), required=False)
    when = forms.DateField(required=False)


def start(user: Any, order: str) -> dict[str, Any]:
    return {"quantity": 3, "note": f"{order} </script>{{% now %}}", "when": date(2026, 5, 1)}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("forms", public=True)

    @server.tool(app=App(form=QuantityForm, initial=start))
    def change_quantity(
        ctx: Context, order: Annotated[str, "its number"], form: QuantityForm
    ) -> dict[str, Any]:
        """Change the quantity of an order."""
        return {"order": order, "quantity": form.cleaned_data["quantity"], "is_ok": True}

    return server


@pytest.fixture
def client(server: MCPServer) -> MCPClient:
    return MCPClient(server, capabilities=HOST)


def find_tool(client: MCPClient, name: str) -> Any:
    return {tool["name"]: tool for tool in client.list_tools()}[name]


def test_a_form_tells_whether_it_starts_with_what_is_there(server: MCPServer, client: MCPClient):
    def send(form: QuantityForm) -> None:
        """Send a quantity."""

    def change(quantity: int = 1) -> None:
        """Change a quantity."""

    server.register_tool(send, app=App(form=QuantityForm))
    server.register_tool(change, name="new", app=App(form=ArgumentsForm()))
    server.register_tool(change, name="old", app=App(form=ArgumentsForm(read="send")))

    filled = "filled in with what is there"
    for name, is_filled in {
        "change_quantity": True,
        "send": False,
        "new": False,
        "old": True,
    }.items():
        told = find_tool(client, f"open_{name}")["description"]
        assert told.startswith(f"Show the user the form of {name}, ")
        assert (filled in told) is is_filled
        assert ("fill it in" in told) is not is_filled


def test_a_form_is_opened_by_a_tool_of_its_own(client: MCPClient):
    tool = find_tool(client, "open_change_quantity")

    assert tool["_meta"]["ui"] == {"resourceUri": "ui://forms/django_mcp/apps/form.html"}
    assert tool["annotations"]["readOnlyHint"] is True
    assert tool["inputSchema"]["properties"] == {
        "order": {"type": "string", "description": "its number"}
    }
    assert "_meta" not in find_tool(client, "change_quantity")


def test_its_result_has_what_the_form_starts_with(client: MCPClient):
    result = client.call("open_change_quantity", order="7")

    assert result.structured == {
        "tool": "change_quantity",
        "values": {
            "quantity": 3,
            "colour": None,
            "secret": None,
            "note": "7 </script>{% now %}",
            "when": "2026-05-01",
        },
        "choices": {
            "colour": [{"value": "r", "label": "Red"}, {"value": "b", "label": "Blue"}],
        },
    }
    assert "- quantity: 3" in result.text
    assert "do not call" in result.text


def test_the_fields_are_rendered_and_escaped(client: MCPClient):
    html = client.call("open_change_quantity", order='7"><b>').meta["django_mcp/html"]

    assert '<input type="number" name="quantity" id="mcp-field-quantity" value="3"' in html
    assert "7&quot;&gt;&lt;b&gt; &lt;/script&gt;{% now %}</textarea>" in html
    assert "<b>" not in html
    assert 'type="date"' in html
    assert ' min="1"' in html
    assert ' rows="3"' in html
    assert '<input type="hidden" name="secret"' in html
    assert "csrf" not in html


def test_other_clients_are_told_how_to_send_it(server: MCPServer):
    result = MCPClient(server).call("open_change_quantity", order="7")

    assert "call that tool, with the fields in form" in result.text
    assert result.meta == {} or "django_mcp/html" not in result.meta


def test_the_page_passes(client: MCPClient):
    client.assert_app("open_change_quantity", order="7")


def test_the_schema_of_the_form_is_published(client: MCPClient):
    schema = find_tool(client, "change_quantity")["inputSchema"]

    form = schema["properties"]["form"]
    assert form["properties"]["quantity"]["type"] == "integer"
    assert form["required"] == ["quantity"]
    assert schema["required"] == ["order", "form"]
    assert "form_context" not in schema["properties"]


@pytest.mark.parametrize("quantity", [5, "5"])
def test_the_tool_gets_a_valid_form(client: MCPClient, quantity: Any):
    result = client.call("change_quantity", order="7", form={"quantity": quantity})

    assert result.structured == {"order": "7", "quantity": 5, "is_ok": True}
    assert '<dd dir="auto">5</dd>' in result.meta["django_mcp/html"]


def test_errors_come_by_field_and_translated(server: MCPServer):
    client = MCPClient(server, capabilities=HOST, headers={"accept-language": "de"})

    result = client.call("change_quantity", order="7", form={"quantity": 0, "colour": "x"})

    assert result.is_error
    errors = result.meta["django_mcp/errors"]
    assert list(errors) == ["quantity", "colour"]
    assert errors["quantity"] == ["Dieser Wert muss größer oder gleich 1 sein."]
    assert "/form/quantity: Dieser Wert" in result.text


def test_unknown_fields_are_not_all_sent_back(client: MCPClient):
    unknown = {"u" * 5000: 1, **{f"u{number}": number for number in range(2000)}}

    result = client.call("change_quantity", {"order": "7", "form": {"quantity": 1, **unknown}})

    assert result.is_error
    errors = result.meta["django_mcp/errors"]
    assert len(errors) == 51
    assert errors[""] == ["and 1951 further problems"]
    assert all(len(name) <= 300 for name in errors)
    assert len(result.text) < 5000


def test_errors_of_other_clients_have_no_fields(server: MCPServer):
    result = MCPClient(server).call("change_quantity", order="7", form={"quantity": 0})

    assert result.is_error
    assert "/form/quantity" in result.text
    assert "django_mcp/errors" not in result.meta


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"quantity": 5, "secret": "longer than it may be"}, "secret"),
        ({"quantity": 5, "colour": "green"}, "colour"),
        ({"quantity": [5]}, "quantity"),
        ({"quantity": {"a": 1}}, "quantity"),
        ({"quantity": 5, "unknown": 1}, "unknown"),
        ({"quantity": 1e400}, "quantity"),
        ({"quantity": 10**40}, "quantity"),
        ({"quantity": 5, "note": [[[[["deep"]]]]]}, "note"),
        ({"quantity": 5, "__proto__": {}}, "__proto__"),
        ({"quantity": 5, "note": "\x00"}, "note"),
    ],
)
def test_bad_input_is_refused(client: MCPClient, form: Any, field: str):
    result = client.call("change_quantity", order="7", form=form)

    assert result.is_error
    assert field in result.meta["django_mcp/errors"]


@pytest.mark.parametrize("form", [None, 5, "x", []])
def test_a_form_is_an_object(client: MCPClient, form: Any):
    result = client.call("change_quantity", order="7", form=form)

    assert result.is_error
    assert result.meta["django_mcp/errors"].keys() == {""}


class ListForm(forms.Form):
    """A form with what takes several values."""

    sizes = forms.MultipleChoiceField(choices=[("s", "S"), ("l", "L")], required=False)
    extra = forms.JSONField(required=False)
    moment = forms.SplitDateTimeField(required=False)


@pytest.mark.parametrize("depth", [3, 60])
@pytest.mark.parametrize("name", ["sizes", "extra", "moment"])
def test_what_is_nested_breaks_nothing(name: str, depth: int):
    server = MCPServer("nested", public=True)

    @server.tool(app=App(form=ListForm))
    def take(form: ListForm) -> str:
        """Take it."""
        return "taken"

    value: Any = "s"
    for _ in range(depth):
        value = [value]

    result = MCPClient(server, capabilities=HOST).call("take", form={name: value})

    assert result.is_error == (name != "extra")
    assert "Internal error" not in result.text


class TestRights:
    @pytest.fixture
    def closed(self, db: None) -> MCPServer:
        server = MCPServer("closed", public=True)

        def is_own(user: Any, order: str) -> bool:
            return order == user.get_username()

        @server.tool(app=App(form=QuantityForm), permission="auth.change_user", check=is_own)
        def change(order: str, form: QuantityForm) -> dict[str, Any]:
            """Change it."""
            return {}

        return server

    def test_the_permission_of_the_tool_hides_what_opens_it(self, closed: MCPServer):
        assert MCPClient(closed, capabilities=HOST).list_tools() == []
        with pytest.raises(MCPError, match="Unknown tool"):
            MCPClient(closed, capabilities=HOST).call("open_change", order="7")

    def test_its_check_decides(self, closed: MCPServer):
        root = User.objects.create_superuser("root")
        client = MCPClient(closed, capabilities=HOST, user=root)

        assert not client.call("open_change", order="root").is_error
        assert client.call("open_change", order="other").is_error
        # What is wrong with the form is not told either.
        refused = client.call("change", order="other", form={})
        assert refused.is_error
        assert "quantity" not in refused.text

    def test_a_tool_that_staff_disabled_takes_what_opens_it_along(self, server: MCPServer):
        client = MCPClient(server, capabilities=HOST)
        server.register_tool(lambda: "", name="other", description="Another.")
        server.registry.set_disabled(frozenset({("tools", "change_quantity")}))

        assert [tool["name"] for tool in client.list_tools()] == ["other"]
        with pytest.raises(MCPError, match="Unknown tool"):
            client.call("open_change_quantity", order="7")

        server.registry.set_disabled(frozenset())
        assert not client.call("open_change_quantity", order="7").is_error

    def test_what_opens_a_tool_can_be_disabled_alone(self, server: MCPServer):
        server.registry.set_disabled(frozenset({("tools", "open_change_quantity")}))

        names = [tool["name"] for tool in MCPClient(server, capabilities=HOST).list_tools()]
        assert names == ["change_quantity"]

    @pytest.mark.parametrize(
        ("restriction", "shown"),
        [
            ({"tools": ["open_change_quantity"]}, []),
            ({"tools": ["change_quantity"]}, ["change_quantity"]),
            (
                {"tools": ["open_change_quantity", "change_quantity"]},
                ["change_quantity", "open_change_quantity"],
            ),
            ({"read_only": True}, []),
        ],
    )
    def test_a_key_that_may_not_send_the_form_does_not_open_it(
        self, db: None, server: MCPServer, restriction: dict[str, Any], shown: list[str]
    ):
        keyed = MCPServer("keyed", authenticators=[APIKeyAuthenticator(cache_s=0)])
        for tool in server.registry.tools.values():
            keyed.registry.add(tool)
        user = User.objects.create_user("ada")
        _, key = APIKey.objects.issue(user=user, name="phone", **restriction)
        client = MCPClient(keyed, capabilities=HOST, headers={"Authorization": f"Bearer {key}"})

        assert [tool["name"] for tool in client.list_tools()] == shown
        if shown[1:]:
            assert not client.call("open_change_quantity", order="7").is_error
        else:
            with pytest.raises(MCPError, match="Unknown tool"):
                client.call("open_change_quantity", order="7")


class MemberForm(forms.Form):
    """A form whose choices depend on the user."""

    group = forms.ModelChoiceField(Group.objects.order_by("name"))
    others = forms.ModelMultipleChoiceField(Group.objects.order_by("name"), required=False)

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["group"].queryset = Group.objects.filter(name__startswith=user.username)  # type: ignore[attr-defined]


@pytest.fixture
def members() -> MCPServer:
    server = MCPServer("members", public=True)

    @server.tool(app=App(form=MemberForm))
    def join(form: MemberForm) -> dict[str, Any]:
        """Join a group."""
        return {"group": form.cleaned_data["group"].name}

    return server


@pytest.mark.django_db
def test_choices_are_those_that_the_user_may_see(members: MCPServer):
    ann = User.objects.create_user("ann")
    own, other = (Group.objects.create(name=name) for name in ("ann 1", "bob 1"))
    client = MCPClient(members, capabilities=HOST, user=ann)

    opened = client.call("open_join")

    # The label of the empty one depends on Django's version.
    empty, *others = opened.structured["choices"]["group"]
    assert empty["value"] == ""
    assert others == [{"value": str(own.pk), "label": "ann 1"}]
    assert "bob 1" not in client.app("open_join")
    assert client.call("join", form={"group": own.pk}).structured == {"group": "ann 1"}
    refused = client.call("join", form={"group": other.pk})
    assert refused.meta["django_mcp/errors"].keys() == {"group"}
    assert refused.is_error
    assert "bob" not in refused.text


@pytest.mark.slow
@pytest.mark.django_db
def test_many_choices_are_bounded(members: MCPServer):
    ann = User.objects.create_user("ann")
    Group.objects.bulk_create(Group(name=f"ann {number}") for number in range(10_000))
    client = MCPClient(members, capabilities=HOST, user=ann)

    opened = client.call("open_join")

    assert len(opened.structured["choices"]["group"]) == 201
    assert opened.structured["more_choices"] == ["group", "others"]
    html = opened.meta["django_mcp/html"]
    assert '<input type="text" name="group"' in html
    assert "<option" not in html
    last = Group.objects.order_by("-pk")[0]
    joined = client.call("join", form={"group": str(last.pk), "others": [str(last.pk)]})
    assert joined.structured == {"group": last.name}


class GroupForm(forms.ModelForm):
    """A form of a model."""

    class Meta:
        model = Group
        fields = ("name",)


@pytest.mark.django_db
def test_a_form_changes_the_object_that_initial_returns():
    server = MCPServer("groups", public=True)

    def find(ctx: Context, name: str) -> Group:
        return Group.objects.get(name=name)

    @server.tool(app=App(form=GroupForm, initial=find))
    def rename(name: str, form: GroupForm) -> str:
        """Rename a group."""
        form.save()
        return "Renamed."

    group = Group.objects.create(name="old")
    Group.objects.create(name="taken")
    client = MCPClient(server, capabilities=HOST)

    assert client.call("open_rename", name="old").structured["values"] == {"name": "old"}
    assert client.call("open_rename", name="none").is_error
    taken = client.call("rename", name="old", form={"name": "taken"})
    assert taken.meta["django_mcp/errors"].keys() == {"name"}
    assert client.call("rename", name="old", form={"name": "new"}).text == "Renamed."
    group.refresh_from_db()
    assert group.name == "new"


@pytest.mark.django_db(transaction=True)
async def test_an_asynchronous_tool_takes_a_form():
    server = MCPServer("async", public=True)

    @server.tool
    async def join(form: QuantityForm) -> int:
        """Join."""
        quantity: int = form.cleaned_data["quantity"]
        return quantity

    client = AsyncMCPClient(server)

    assert (await client.call("join", form={"quantity": 4})).structured == 4
    assert (await client.call("join", form={})).is_error
    assert [tool["name"] for tool in await client.list_tools()] == ["join"]


class FileForm(forms.Form):
    """A form with a file."""

    upload = forms.FileField(required=False)


class TestRegistration:
    def test_a_file_is_refused(self):
        server = MCPServer("files", public=True)

        def send(form: FileForm) -> str:
            return ""

        with pytest.raises(RegistrationError, match="'upload' of FileForm takes a file"):
            server.register_tool(send, app=App(form=FileForm))
        with pytest.raises(RegistrationError, match="takes a file"):
            server.register_tool(send)

    def test_a_form_that_no_parameter_takes_is_refused(self):
        server = MCPServer("missing", public=True)

        def send(order: str) -> str:
            return ""

        with pytest.raises(RegistrationError, match="no parameters take it"):
            server.register_tool(send, app=App(form=QuantityForm))

    def test_a_name_that_is_taken_leaves_nothing(self, server: MCPServer):
        def change(form: QuantityForm) -> str:
            return ""

        server.register_tool(change, name="open_other")
        with pytest.raises(RegistrationError, match="open_other"):
            server.register_tool(change, name="other", app=App(form=QuantityForm))
        assert "other" not in server.registry.tools

    def test_both_are_removed(self, server: MCPServer):
        assert server.remove_tool("change_quantity")

        assert list(server.registry.tools) == []

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"form": QuantityForm, "initial": 5}, "initial is 5"),
            ({"initial": start, "template": "a.html"}, "initial is"),
            ({"form": "QuantityForm"}, "form is 'QuantityForm'"),
        ],
    )
    def test_wrong_options(self, options: Any, told: str):
        with pytest.raises((TypeError, ValueError), match=told):
            App(**options)

    def test_initial_takes_arguments_of_the_tool(self):
        server = MCPServer("initial", public=True)

        def change(order: str, form: QuantityForm) -> str:
            return ""

        def other(user: Any, number: int) -> dict[str, Any]:
            return {}

        with pytest.raises(RegistrationError, match="takes number"):
            server.register_tool(change, app=App(form=QuantityForm, initial=other))


@dataclass
class Address:
    """Where somebody lives."""

    street: str


class TestArguments:
    @pytest.fixture
    def server(self) -> MCPServer:
        server = MCPServer("arguments", public=True)

        @server.tool(read_only=True)
        def get_order(number: str) -> dict[str, Any]:
            """Get an order."""
            return {"number": number, "status": "sent", "count": 3, "version": 7, "tags": ["a"]}

        form = ArgumentsForm(
            keys=["number"], read="get_order", sources={"if_unmodified": "version"}
        )

        @server.tool(app=App(form=form), validate_input=True)
        def update_order(
            number: str,
            if_unmodified: int,
            status: Literal["new", "sent"] | None = None,
            count: Annotated[int, "Pieces"] | None = None,
            tags: list[Literal["a", "b"]] | None = None,
            placed: date | None = None,
            is_gift: bool | None = None,
            address: Address | None = None,
        ) -> dict[str, Any]:
            """Update an order."""
            return {"number": number, "status": status, "version": if_unmodified}

        return server

    def test_the_form_starts_with_the_object(self, server: MCPServer):
        client = MCPClient(server, capabilities=HOST)

        opened = client.call("open_update_order", number="7")

        assert opened.structured["values"] == {
            "if_unmodified": None,
            "status": "sent",
            "count": 3,
            "tags": ["a"],
            "placed": None,
            "is_gift": None,
            "address": None,
        }
        html = opened.meta["django_mcp/html"]
        assert '<input type="hidden" name="if_unmodified" value="7" data-mcp-reads="json">' in html
        assert "data-mcp-changed" in html
        assert '<option value="&quot;sent&quot;" selected>sent</option>' in html
        assert 'type="number" name="count"' in html
        assert 'type="date" name="placed"' in html
        assert '<textarea name="address"' in html
        assert find_tool(client, "open_update_order")["inputSchema"]["required"] == ["number"]

    def test_errors_come_by_field(self, server: MCPServer):
        client = MCPClient(server, capabilities=HOST)

        result = client.call("update_order", number="7", if_unmodified=7, status="lost")

        assert result.is_error
        assert result.meta["django_mcp/errors"].keys() == {"status"}

    def test_an_unknown_key_is_refused(self, server: MCPServer):
        def change(number: str) -> str:
            return ""

        with pytest.raises(RegistrationError, match="'order', which is no argument"):
            server.register_tool(change, app=App(form=ArgumentsForm(keys=["order"])))


class SecretForm(forms.Form):
    name = forms.CharField()
    token = forms.CharField(widget=forms.PasswordInput, required=False)


def test_a_page_does_not_show_the_passwords_of_a_form():
    server = MCPServer("forms-secrets", public=True)

    @server.tool(app=App(form=SecretForm, initial=lambda user: {"name": "A", "token": "s3cret"}))
    def change(form: SecretForm) -> dict[str, Any]:
        """Change it."""
        return {"name": form.cleaned_data["name"]}

    result = MCPClient(server, capabilities=HOST).call("open_change")

    assert result.structured["values"] == {"name": "A"}
    assert "s3cret" not in result.text + str(result.meta)


class SizesForm(forms.Form):
    sizes = forms.MultipleChoiceField(choices=[("s", "S"), ("m", "M")])


def test_a_field_takes_no_more_values_than_its_form_compares_at_once():
    server = MCPServer("forms-sizes", public=True)

    @server.tool
    def choose(form: SizesForm) -> list[str]:
        """Choose."""
        chosen: list[str] = form.cleaned_data["sizes"]
        return chosen

    client = MCPClient(server, capabilities=HOST)
    result = client.call("choose", form={"sizes": ["s"] * 1_001})

    assert result.is_error
    assert "/form/sizes: must have at most 1000 items" in result.text
