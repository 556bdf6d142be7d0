"""A template tag that waits until the test lets it go on."""

from __future__ import annotations

import threading

from django.template import Library

register = Library()

may_go_on = threading.Event()


@register.simple_tag
def wait() -> str:
    """Wait, for longer than the tool may take: in the thread of the test, which could not end the wait."""
    may_go_on.wait(2)
    return "done"
