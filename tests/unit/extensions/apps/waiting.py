"""A template tag that waits until the test lets it go on."""

from __future__ import annotations

import threading

from django.template import Library

register = Library()

may_go_on = threading.Event()


@register.simple_tag
def wait() -> str:
    """Wait, for half a minute at most."""
    may_go_on.wait(30)
    return "done"
