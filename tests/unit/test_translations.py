"""The package's own messages: all translated, the compiled catalogue up to date."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path

import pytest
from django.utils import translation
from django.utils.translation.template import templatize

import django_mcp

PACKAGE = Path(django_mcp.__file__).parent
CATALOGUES = "\n".join(
    path.read_text() for path in PACKAGE.rglob("locale/de/LC_MESSAGES/django.po")
)
# Of a site, other apps may come first.
COMPILED = NullTranslations()
for path in PACKAGE.rglob("locale/de/LC_MESSAGES/django.mo"):
    COMPILED.add_fallback(GNUTranslations(BytesIO(path.read_bytes())))
TRANSLATE = re.compile(r"_|_t|_lazy|n?gettext(_lazy)?")
TEXT = r"""u?('(\\.|[^'\\])*'|"(\\.|[^"\\])*")"""
# Of a template, Django makes such calls between letters that mean nothing.
OF_TEMPLATE = re.compile(rf"\b(_|n?gettext)\({TEXT}(,\s*{TEXT},\s*count)?\)")

Message = tuple[str, ...]


def find_messages(code: str) -> Iterator[Message]:
    """Yield the texts of each translating call in Python code: the message, and the plural if it has one."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if TRANSLATE.fullmatch(name):
            texts = node.args[: 2 if name.startswith("n") else 1]
            if all(isinstance(each, ast.Constant) for each in texts):
                yield tuple(ast.literal_eval(each) for each in texts)


def find_messages_of_template(source: str) -> Iterator[Message]:
    for call in OF_TEMPLATE.finditer(templatize(source)):
        yield from find_messages(call[0])


MESSAGES = sorted(
    {
        *(text for path in PACKAGE.rglob("*.py") for text in find_messages(path.read_text())),
        *(
            text
            for path in PACKAGE.rglob("*.html")
            for text in find_messages_of_template(path.read_text())
        ),
    }
)


def find_translations(message: Message) -> list[str]:
    """Return the translations that the catalogue has of a message, of which a plural has two."""
    quoted = [re.escape(each.replace("\\", r"\\").replace('"', r"\"")) for each in message]
    if len(message) == 1:
        entry = rf'^msgid "{quoted[0]}"\nmsgstr "(.+)"$'
    else:
        one, many = quoted
        entry = rf'^msgid "{one}"\nmsgid_plural "{many}"\nmsgstr\[0\] "(.+)"\nmsgstr\[1\] "(.+)"$'
    found = re.search(entry, CATALOGUES, re.MULTILINE)
    return [] if found is None else [each.replace(r"\"", '"') for each in found.groups()]


def test_the_catalogue_has_messages():
    assert len(MESSAGES) > 800


@pytest.mark.parametrize(
    "source",
    [
        "{% translate 'Sold' %}",
        '{% translate "Sold" %}',
        "{% trans 'Sold' as title %}",
        "<a title=\"{% translate 'Sold' %}\">",
        "{% blocktranslate %}Sold{% endblocktranslate %}",
        "{% blocktranslate trimmed %}\n Sold\n{% endblocktranslate %}",
        "{{ _('Sold') }}",
        "{% include 'a.html' with title=_('Sold') %}",
    ],
)
def test_messages_of_templates_are_found_in_each_form(source: str):
    assert list(find_messages_of_template("{% load i18n %}" + source)) == [("Sold",)]


def test_plurals_are_found():
    tag = "{% blocktranslate count n=n %}{{ n }} cup{% plural %}{{ n }} cups{% endblocktranslate %}"
    assert [*find_messages_of_template(tag), *find_messages("ngettext('a', 'b', n)")] == [
        ("%(n)s cup", "%(n)s cups"),
        ("a", "b"),
    ]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message[0])
def test_every_message_is_translated_into_german(message: Message):
    expected = find_translations(message)
    if not expected:
        # Then it is one of Django's own.
        with translation.override("de"):
            assert translation.gettext(message[0]) != message[0]
    elif len(message) == 1:
        assert [COMPILED.gettext(*message)] == expected
    else:
        one, many = message
        assert [COMPILED.ngettext(one, many, count) for count in (1, 2)] == expected
