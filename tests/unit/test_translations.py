"""The package's own messages: all translated, the compiled catalogue up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.utils import translation

import django_mcp

PACKAGE = Path(django_mcp.__file__).parent
CATALOGUES = "\n".join(
    path.read_text() for path in PACKAGE.rglob("locale/de/LC_MESSAGES/django.po")
)
CALL = re.compile(r'\b_t?\(\s*"((?:[^"\\]|\\.)*)"')
TAG = re.compile(r'{% translate "(.*?)"')

MESSAGES = sorted(
    {
        *(text for path in PACKAGE.rglob("*.py") for text in CALL.findall(path.read_text())),
        *(text for path in PACKAGE.rglob("*.html") for text in TAG.findall(path.read_text())),
    }
)


def test_the_catalogue_has_messages():
    assert len(MESSAGES) > 3


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_is_translated_into_german(message: str):
    found = re.search(rf'^msgid "{re.escape(message)}"\nmsgstr "(.+)"$', CATALOGUES, re.MULTILINE)

    assert found is not None
    with translation.override("de"):
        assert translation.gettext(message) == found[1]
