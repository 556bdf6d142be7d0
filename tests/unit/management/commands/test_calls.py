"""`mcp_list`, `mcp_call`, `mcp_read` and `mcp_prompt`: a server at the shell."""

from __future__ import annotations

import json
import re
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError

from django_mcp import Context, MCPServer
from django_mcp.management.terminal import Terminal, render
from django_mcp.protocol.revisions import REVISIONS
from example_project.shop.models import Order
from tests.support.commands import Run

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer"},
        "share": {"type": "number"},
        "sure": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "sizes": {"type": "array", "items": {"anyOf": [{"const": "s", "title": "Small"}]}},
    },
    "required": ["name", "sure"],
}


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("shell")

    @server.tool
    def fill(ctx: Context) -> dict[str, Any]:
        """Ask for many things."""
        answer = ctx.elicit("Who are\x1b[2J you?", FORM)
        return {"action": answer.action, "content": answer.content}

    @server.tool
    def agree(ctx: Context) -> str:
        """Ask for a yes, a visit, the model and the roots."""
        found = [ctx.elicit("Go on?", {"type": "object"}).action]
        found.append(ctx.elicit_url("Please pay.", "https://example.com/pay").action)
        found.append(ctx.sample("Say hi", max_tokens=5).text)
        found.append(str(ctx.list_roots()[0]["uri"]))
        return " ".join(found)

    @server.tool
    def talk(ctx: Context) -> list[str]:
        """Log, and answer with what a terminal would obey."""
        ctx.debug({"fine": 1})
        ctx.info("well")
        return ["a\x1b]0;title\x07b"]

    @server.tool
    def leave() -> str:
        """Exit."""
        sys.exit(0)

    return server


def error_of(run: Run, *arguments: str, **options: Any) -> tuple[str, int]:
    with pytest.raises(CommandError) as raised:
        run(*arguments, **options)
    return str(raised.value), raised.value.returncode


# -- mcp_list


def test_the_list_shows_what_an_anonymous_user_sees(run: Run):
    out, _ = run("mcp_list")

    assert "find_products" in out
    assert "Search what the shop sells." in out
    assert "order://{number}" in out
    assert "Prompts (2)" in out
    assert "best_sellers" not in out


def test_a_list_says_how_many_entries_are_hidden_from_nobody(run: Run):
    server = MCPServer("hiding", public=True)

    @server.tool(read_only=True)
    def seen() -> str:
        return "seen"

    @server.tool(read_only=True, permission="shop.view_order")
    def hidden() -> str:
        return "hidden"

    out = run("mcp_list", "--server", "hiding")[0]

    assert "1 more are for users with permissions: --user USERNAME" in out


def test_a_list_begins_with_its_server_and_the_others(run: Run):
    first, second, *_ = run("mcp_list")[0].splitlines()

    assert first == 'Server "example-shop", at /mcp'
    assert second.startswith("Other servers: ")
    assert "shop-staff" in second
    assert "example-shop" not in second
    assert second.endswith(" (--server NAME)")


def test_another_server_can_be_selected(run: Run):
    out = run("mcp_list", "--server", "shop-staff")[0]

    first, second, *_ = out.splitlines()
    assert first == 'Server "shop-staff", at /staff/mcp'
    assert second.startswith("Other servers: ")
    assert "example-shop" in second
    assert "find_products" not in out


def test_a_server_without_a_url_is_listed_as_unmounted(run: Run):
    server = MCPServer("unmounted")

    out = run("mcp_list", "--server", server.name)[0]

    assert out.startswith('Server "unmounted", no URL leads to it\n')


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
def test_the_json_list_has_the_format_of_a_revision(run: Run, revision: str):
    found = json.loads(run("mcp_list", "--json", "--revision", revision)[0])

    tools = {tool["name"]: tool for tool in found["tools"]}
    has_icons = "icons" in tools["find_products"]
    assert has_icons is (revision in ("2025-11-25", "2026-07-28"))
    assert found["server"] == "example-shop"
    assert {"resources", "resourceTemplates", "prompts"} <= found.keys()


def test_the_size_of_the_catalogue_is_estimated(run: Run):
    found = json.loads(run("mcp_list", "--json", "--tokens")[0])

    assert found["tokens"]["total"] == sum(
        size for key, size in found["tokens"].items() if key != "total"
    )
    first = json.dumps(found["tools"][0], separators=(",", ":"), ensure_ascii=False)
    assert f"{-(-len(first) // 4)}  find_products" in run("mcp_list", "--tokens")[0]
    printed = run("mcp_list", "--tokens")[0]
    assert f"About {found['tokens']['total']} tokens" in printed
    sizes = found["tokens_of_tools"]["function"]
    # Each tool is rounded up in each of its parts.
    rounded = sum(sizes.values()) - found["tokens"]["tools"]
    assert 0 <= rounded < len(sizes) * len(found["tools"])
    assert re.search(rf"^  function +{' +'.join(map(str, sizes.values()))}$", printed, re.MULTILINE)


def test_an_empty_server_explains_where_to_put_tools(run: Run):
    server = MCPServer("bare")
    told = "Register some in mcp.py of an app that is installed; manage.py startmcp APP"

    assert told in run("mcp_list", "--server", "bare")[0]
    for command, things in (
        ("mcp_call", "tools"),
        ("mcp_read", "resources"),
        ("mcp_prompt", "prompts"),
    ):
        text, status = error_of(run, command, "x://y", "--server", "bare")
        assert text.startswith(f"The server 'bare' has no {things}. {told}")
        assert status == 2
    assert json.loads(run("mcp_list", "--server", "bare", "--json")[0])["tools"] == []
    server.register_tool(lambda: "", name="hidden", permission="shop.change_product")
    assert "--user" in run("mcp_list", "--server", "bare")[0]
    assert "startmcp" not in error_of(run, "mcp_call", "x", "--server", "bare")[0]


@pytest.mark.django_db
def test_an_unknown_or_inactive_user_is_reported(run: Run):
    get_user_model().objects.create_user("gone", is_active=False)

    assert error_of(run, "mcp_list", "--user", "nobody") == (
        "There is no user 'nobody': no user has this username.",
        2,
    )
    assert "not active" in error_of(run, "mcp_list", "--user", "gone")[0]
    text, status = error_of(run, "mcp_list", "--server", "nothing")
    assert "No MCP server is called 'nothing'. Servers: " in text
    assert status == 2


@pytest.mark.django_db
def test_a_user_is_named_by_the_field_of_the_user_model(run: Run, monkeypatch: pytest.MonkeyPatch):
    get_user_model().objects.create_user("ada", email="ada@example.com")
    monkeypatch.setattr(get_user_model(), "USERNAME_FIELD", "email")

    run("mcp_list", "--user", "ada@example.com")
    text, _ = error_of(run, "mcp_list", "--user", "ada")
    assert text == "There is no user 'ada': no user has this email."


# -- mcp_call


@pytest.mark.usefixtures("shop")
def test_a_tool_is_called(run: Run):
    out, err = run("mcp_call", "find_products", '{"query": "mug"}')

    assert json.loads(out)[0]["sku"] == "mug"
    assert err == ""
    raw = json.loads(run("mcp_call", "find_products", "-", "--json", stdin='{"query": "mug"}')[0])
    assert raw["structuredContent"][0]["sku"] == "mug"


@pytest.mark.usefixtures("shop")
def test_a_tool_is_called_on_a_users_behalf(run: Run):
    get_user_model().objects.create_user("bob")

    run("mcp_call", "place_order", '{"lines": [{"sku": "mug", "quantity": 1}]}', "--user", "bob")

    assert Order.objects.get(customer__username="bob").total == pytest.approx(9.5)


@pytest.mark.usefixtures("shop")
def test_options_may_stand_between_the_arguments(run: Run):
    get_user_model().objects.create_user("bob")

    who = run("mcp_call", "find_products", "--user", "bob", '{"query": "mug"}', "--verbosity", "1")
    assert json.loads(who[0])[0]["sku"] == "mug"
    piped = run("mcp_call", "--json", "find_products", "--no-color", "-", stdin='{"query": "mug"}')
    assert json.loads(piped[0])["structuredContent"][0]["sku"] == "mug"
    prompt = run("mcp_prompt", "restock_review", "--user", "bob", "category=office")[0]
    assert prompt.startswith("user: Our stock in office:")
    apart = run("mcp_prompt", "--user", "bob", "restock_review", "category=office", "--json")[0]
    assert "office" in json.loads(apart)["messages"][0]["content"]["text"]
    assert "unrecognized" in error_of(run, "mcp_call", "find_products", "{}", "{}")[0]


@pytest.mark.usefixtures("shop")
def test_non_text_content_is_described(run: Run):
    assert "[image, image/png, " in run("mcp_call", "get_product_photo", '{"sku": "kettle"}')[0]


def test_bad_input_is_reported_with_an_exit_status(run: Run):
    text, status = error_of(run, "mcp_call", "convert_price", "{")
    assert "not JSON" in text
    assert status == 2
    assert "one object" in error_of(run, "mcp_call", "convert_price", "[1]")[0]
    assert "not JSON" in error_of(run, "mcp_call", "convert_price", "\udcff")[0]
    assert error_of(run, "mcp_call", "convert_prise") == (
        "Unknown tool: convert_prise. Did you mean convert_price?",
        2,
    )
    text, status = error_of(run, "mcp_call", "convert_price", '{"euros": "x"}')
    assert "Invalid arguments" in text
    assert "currency" in text
    assert status == 1
    assert ". Tools: find_products" in error_of(run, "mcp_call", "zzzzzz")[0]


@pytest.mark.django_db
def test_the_user_option_is_suggested_for_a_tool_with_scopes(run: Run):
    scoped = MCPServer("scoped only", public=True)
    scoped.register_tool(lambda: 3, name="count", scopes=["orders:read"], read_only=True)

    text, _status = error_of(run, "mcp_call", "count", "--server", "scoped only")

    assert "This needs a token with the scopes: orders:read" in text
    assert "Name a user with --user, whom scopes do not restrict" in text


@pytest.mark.django_db
def test_the_user_option_is_suggested_if_nothing_is_visible(run: Run):
    closed = MCPServer("signed-in only", public=True)

    @closed.tool(permission="shop.view_order", read_only=True)
    def count_orders() -> int:
        """Count the orders."""
        return 3

    call = ("mcp_call", "count_orders", "--server", "signed-in only")
    text = "Unknown tool: count_orders."
    remedy = "Anonymous users cannot use it: name a user with --user."
    assert error_of(run, *call)[0] == f"{text} {remedy}"
    get_user_model().objects.create_user("ann")
    assert error_of(run, *call, "--user", "ann")[0] == f"{text} This user sees no tools."
    nothing = error_of(run, "mcp_call", "count", "--server", "signed-in only")[0]
    assert nothing == "Unknown tool: count. This user sees no tools. Name a user with --user."


def test_an_entry_that_is_disabled_in_the_admin_is_said_to_be(run: Run):
    server = MCPServer("switched off", public=True)
    server.register_tool(lambda: "", name="count")
    server.register_tool(lambda: "", name="counts", permission="shop.view_order")
    server.register_resource("note://{name}", lambda name: name, name="note")
    off = {("tools", "count"), ("tools", "counts"), ("templates", "note://{name}")}
    server.registry.set_disabled(frozenset(off))

    for command, name in (("mcp_call", "count"), ("mcp_call", "counts"), ("mcp_read", "note://a")):
        text, status = error_of(run, command, name, "--server", "switched off")
        assert text.endswith(f". {name!r} is disabled in the admin.")
        assert status == 2
    assert "disabled" not in error_of(run, "mcp_call", "other", "--server", "switched off")[0]


@pytest.mark.usefixtures("server")
def test_a_tool_that_raises_system_exit_has_failed(run: Run):
    text, status = error_of(run, "mcp_call", "leave", "--server", "shell")

    assert text.startswith("Internal error (reference ")
    assert status == 1


@pytest.mark.usefixtures("server")
def test_a_form_is_filled_in_field_by_field(run: Run):
    lines = "\nAnn\nx\n7\n0.5\nperhaps\ny\n2\nSmall\n"
    out, err = run("mcp_call", "fill", "--server", "shell", stdin=lines)

    assert json.loads(out) == {
        "action": "accept",
        "content": {
            "name": "Ann",
            "age": 7,
            "share": 0.5,
            "sure": True,
            "colour": "blue",
            "sizes": ["s"],
        },
    }
    assert "This one is needed." in err
    assert "Write a whole number." in err
    assert "Write y or n." in err
    assert "1) Small (s)" in err
    assert "Your name" in err
    assert "\x1b" not in err


@pytest.mark.usefixtures("server")
def test_a_field_may_be_omitted_or_keep_its_default(run: Run):
    out, err = run("mcp_call", "fill", "--server", "shell", stdin="Ann\n\n\nn\n\n\n")

    assert json.loads(out)["content"] == {"name": "Ann", "sure": False, "colour": "red"}
    assert "(default: red)" in err
    assert "(optional)" in err


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ({"type": "string", "default": ""}, 'default: ""'),
        ({"type": "string", "default": " red"}, 'default: " red"'),
        ({"type": "boolean", "default": True}, "y or n; default: yes"),
        ({"type": "boolean", "default": False}, "y or n; default: no"),
        ({"type": "integer", "default": 0}, "default: 0"),
        ({"type": "array", "items": {"enum": ["s", "l"]}, "default": ["s", "l"]}, "default: s, l"),
        ({"type": "array", "items": {"enum": ["s"]}, "default": []}, "default: none"),
    ],
)
def test_a_default_is_shown_clearly(field: dict[str, Any], shown: str):
    err = StringIO()
    schema = {"type": "object", "properties": {"note": field}}
    form = {"message": "Order", "mode": "form", "requestedSchema": schema}

    answer = Terminal(StringIO("\n"), err)(
        "order", {"method": "elicitation/create", "params": form}
    )

    assert answer == {"note": field["default"]}
    assert f"note ({shown})\n" in err.getvalue()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("lines", "action"),
    [(":decline\n", "decline"), ("Ann\n:cancel\n", "cancel"), ("Ann\n", "cancel"), ("", "cancel")],
)
def test_a_question_may_be_declined_or_cancelled(run: Run, lines: str, action: str):
    out, _ = run("mcp_call", "fill", "--server", "shell", stdin=lines)

    assert json.loads(out)["action"] == action


@pytest.mark.usefixtures("server")
def test_url_elicitation_sampling_and_roots_are_prompted(run: Run):
    out, err = run("mcp_call", "agree", "--server", "shell", stdin="what\ny\nn\nhi there\n")

    assert out.strip() == f"accept decline hi there {Path.cwd().as_uri()}"
    assert "Open https://example.com/pay" in err
    assert "user: Say hi" in err


@pytest.mark.usefixtures("server")
def test_answers_may_be_preset_or_declined(run: Run):
    given = '{"question-1": {"name": "Ann", "sure": true}}'
    fill = ("mcp_call", "fill", "--server", "shell")

    assert '"Ann"' in run(*fill, "--answers", given)[0]
    assert '"decline"' in run(*fill, "--answers", "[false]")[0]
    assert error_of(run, *fill, "--no-input")[0].startswith(
        "The call asks questions: leave out --no-input, or give --answers. ("
    )
    unanswered = error_of(run, *fill, "--answers", "{}")[0]
    assert unanswered.startswith("Nothing answers")
    assert ".." not in unanswered
    assert "?." not in unanswered
    assert error_of(run, *fill, "--answers", "7")[1] == 2
    assert error_of(run, *fill, "--answers", "{")[1] == 2
    assert "not an answer" in error_of(run, *fill, "--answers", '["text"]')[0]


@pytest.mark.usefixtures("server")
def test_log_messages_are_shown_by_verbosity(run: Run):
    talk = ("mcp_call", "talk", "--server", "shell")

    assert run(*talk)[1] == "[info] well\n"
    assert "[debug]" in run(*talk, verbosity=2)[1]
    out, err = run(*talk, verbosity=0)
    assert err == ""
    assert "\x1b" not in out
    assert "\x07" not in out


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ((1, 2, "half\x1b"), "[###############...............]  50% half"),
        ((5, None, None), "5"),
        ((9, 2, "more than all"), f"[{'#' * 30}] 100% more than all"),
        ((0, 0, None), "0"),
        ((-1, 4, None), f"[{'.' * 30}]   0%"),
    ],
)
def test_progress_is_printed_as_a_line(told: Any, line: str):
    assert render(*told) == line


# -- mcp_read and mcp_prompt


@pytest.mark.usefixtures("shop")
def test_a_resource_is_read(run: Run, tmp_path: Path):
    file = tmp_path / "lamp.png"

    assert json.loads(run("mcp_read", "product://lamp/stock")[0])["stock"] == 23
    run("mcp_read", "product://lamp/photo", "--output", str(file))
    assert file.read_bytes().startswith(b"\x89PNG")
    raw = json.loads(run("mcp_read", "product://lamp/photo", "--json")[0])
    assert raw["contents"][0]["mimeType"] == "image/png"

    assert "--output" in error_of(run, "mcp_read", "product://lamp/photo")[0]
    assert (
        "already exists"
        in error_of(run, "mcp_read", "product://lamp/photo", "--output", str(file))[0]
    )
    assert (
        "cannot be written"
        in error_of(
            run, "mcp_read", "product://lamp/photo", "--output", str(tmp_path / "no" / "x")
        )[0]
    )
    text, _ = error_of(run, "mcp_read", "product://nothing/stock")
    assert "The template product://{sku}/stock has no such object for this user." in text
    assert "--user" in text
    text, status = error_of(run, "mcp_read", "shop://term")
    assert (
        text == "Resource not found: shop://term. Did you mean shop://terms or shop://categories?"
    )
    assert status == 2


@pytest.mark.usefixtures("shop")
def test_a_prompt_is_rendered(run: Run):
    out, _ = run("mcp_prompt", "restock_review", "category=office")

    assert out.startswith("user: Our stock in office:")
    assert "assistant: Which of these" in out
    raw = json.loads(run("mcp_prompt", "restock_review", "category=a=b", "--json")[0])
    assert "a=b" in raw["messages"][0]["content"]["text"]

    assert error_of(run, "mcp_prompt", "restock_review", "office")[1] == 2
    assert "category" in error_of(run, "mcp_prompt", "restock_review")[0]
    assert "Did you mean apology" in error_of(run, "mcp_prompt", "apologie")[0]


# -- as a shell runs them


@pytest.mark.parametrize(
    "command",
    ["mcp_list", "mcp_call", "mcp_read", "mcp_prompt", "mcp_config", "mcp_surface", "startmcp"],
)
def test_every_command_has_help(run: Run, command: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as raised:
        run(command, "--help")

    assert raised.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_a_server_defined_in_the_urlconf_is_found(run: Run, server_in_urlconf: str):
    assert "found" in run("mcp_list", "--server", server_in_urlconf)[0]
