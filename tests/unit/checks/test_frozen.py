"""What `manage.py check` reports of texts that are translated when their module is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from django_mcp.checks.frozen import find_frozen
from django_mcp.servers import MCPServer

# Some checks of Django ask the database what it can do, once in a process.
pytestmark = pytest.mark.django_db

HEAD = """
from django.utils import translation
from django.utils.text import format_lazy
from django.utils.translation import gettext as _, gettext as tr, gettext_lazy, ngettext, pgettext
from typing import Annotated
from pydantic import Field
from django_mcp import MCPServer, ToolResult, tool
from django_mcp.contrib.models import ModelTools
from django_mcp.extensions.apps import Confirm

server = MCPServer("frozen", public=True)
NAME = gettext_lazy("Order")
"""
TOOL = "\n\n@server.tool(read_only=True, {})\ndef look() -> str:\n    return _('Now')\n"

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    monkeypatch.syspath_prepend(tmp_path)

    def make(text: str) -> ModuleType:
        (tmp_path / "frozen_texts.py").write_text(HEAD + text)
        return import_module("frozen_texts")

    yield make
    sys.modules.pop("frozen_texts", None)


@pytest.mark.parametrize(
    "option",
    [
        "title=_('Delete')",
        "description=translation.gettext('Delete')",
        "title=pgettext('a', 'Delete')",
        "description=ngettext('a', 'b', 2)",
        "title='Delete ' + _('order')",
        "title=f'{NAME}'",
        "title=f\"{gettext_lazy('Delete')} all\"",
        "description='%s' % gettext_lazy('Yes')",
        "description='%s %s' % (1, NAME)",
        "title=gettext_lazy('Yes %s') % 1",
        "title=str(NAME)",
        "title=NAME.upper()",
        "title='{}'.format(NAME)",
        "title=_('a') if 1 else 'b'",
        "meta={'a': _('Delete')}",
        "confirm=Confirm(question=_('Sure?'))",
    ],
)
def test_a_text_of_a_decorator(load: Load, option: str):
    (each,) = find_frozen(load(TOOL.format(option).replace("read_only", "destructive")))

    assert each.name in ("title= of server.tool()", "description= of server.tool()", "meta= of server.tool()", "question= of Confirm()")  # fmt: skip
    assert each.line > HEAD.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "TITLE = _('Delete')" + TOOL.format("title=TITLE"),
        "class Orders(ModelTools):\n    descriptions = {'search': _('Find')}\n",
        "def look() -> str: return ''\nserver.register_tool(look, title=_('Look'))",
        "other = MCPServer('other', instructions=_('Be kind'))",
        "@tool\ndef look(a: Annotated[int, Field(description=_('A'))]) -> str: return ''",
        "def register(own):\n    @own.tool(title=_('A'))\n    def look() -> str: return ''",
    ],
)
def test_a_text_elsewhere(load: Load, text: str):
    # What is registered at the default server is not for the other tests.
    assert len(find_frozen(load(text.replace("@tool\n", "@server.tool\n")))) == 1


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("LABELS = {\n    'no': NAME,\n    'yes': _('Yes'),\n    'all': _('All'),\n}", "LABELS", 3),
        ("LABEL: str = pgettext('a', 'Yes')", "LABEL", 1),
        ("LABEL = f'{NAME}'", "LABEL", 1),
        ("BOTH = format_lazy('{}!', NAME)\nLABEL = BOTH + '?'", "LABEL", 2),
        (
            "def look(a: Annotated[int, Field(description=_('A'))]): pass",
            "the parameter a of look",
            1,
        ),
        ("LABELS = []\nLABELS += [translation.gettext('Yes')]", "LABELS", 2),
        ("LABELS = []\nLABELS.append(_('Yes'))", "a text", 2),
        ("LABELS = [tr(each) for each in 'ab']", "LABELS", 1),
        ("try:\n    LABEL = _('Yes')\nfinally:\n    pass", "LABEL", 2),
        ("class Other:\n    size = 1\n    title = _('Delete')", "Other.title", 3),
        ("class Other:\n    class Meta:\n        title = _('A')", "Other.Meta.title", 3),
        ("class Other:\n    def look(self, label=_('A')): pass", "a default of look()", 2),
        ("def look(a, *, label=ngettext('a', 'b', 2)): pass", "a default of look()", 1),
        ("look = lambda label=_('A'): label", "look", 1),
        ("import functools\n@functools.partial(print, _('A'))\ndef look(): pass", "a text", 2),
    ],
)
def test_a_text_that_a_module_keeps(load: Load, text: str, name: str, line: int):
    (each,) = find_frozen(load(text))

    assert (each.name, each.line - HEAD.count("\n")) == (name, line)


def test_a_function_that_is_imported_from_elsewhere(tmp_path: Path, load: Load):
    load("")
    (tmp_path / "labels_of_frozen.py").write_text("from frozen_texts import tr\nYES = tr('Yes')\n")
    try:
        (each,) = find_frozen(import_module("labels_of_frozen"))
    finally:
        sys.modules.pop("labels_of_frozen", None)

    assert (each.name, each.text) == ("YES", "tr('Yes')")


@pytest.mark.parametrize(
    "text",
    [
        TOOL.format("title=gettext_lazy('Delete'), description=NAME"),
        TOOL.format("title=format_lazy('{} {}', NAME, 1)"),
        TOOL.format("title='Delete', description=f'{1} order'"),
        TOOL.format("permission=lambda user: _('Delete')"),
        "@server.tool\ndef look():\n    return ToolResult(_('Done'), meta={'a': _('Delete')})",
        "LABELS = {'yes': gettext_lazy('Yes'), 'no': lambda: _('No')}",
        "def look(label=NAME):\n    labels = [_('Yes')]\n    class Other:\n        title = _('A')\n",
        "from django.utils.functional import lazystr\nURL = lazystr('/a')\nFULL = f'{URL}?page=1'",
        "with translation.override('de'):\n    LABEL = _('Yes')\n",
        "if not server:\n    raise ValueError(_('No server'))\n",
        "class Orders(ModelTools):\n    def get_label(self, row):\n        return _('Find')\n",
    ],
)
def test_a_text_that_is_translated_for_each_client(load: Load, text: str):
    assert find_frozen(load(text)) == []


def test_the_check_reads_the_modules_of_entries(load: Load):
    module = load(TOOL.format("title=_('Delete')"))
    server: MCPServer = module.server

    def find(**settings: Any) -> list[str]:
        with override_settings(**settings):
            found = run_checks(tags=["django_mcp"])
        return [each.msg for each in found if each.id == "django_mcp.W047"]

    (told,) = find()
    assert f"{module.__file__}:" in told
    assert "_('Delete')" in told
    assert find(USE_I18N=False) == []
    server.remove_tool("look")
