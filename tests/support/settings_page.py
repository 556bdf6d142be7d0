"""Write docs/reference/settings.md from the settings: `python -m tests.support.settings_page`."""

from __future__ import annotations

from pathlib import Path

from django_mcp.conf import SETTINGS
from django_mcp.server.setting import Scope, Setting

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"

HEAD = """# Settings

<!-- Written by `python -m tests.support.settings_page` from the declarations; a test compares. Do not edit. -->

`DJANGO_MCP` is a dict in your Django settings. Every key has a default. A [system check](checks.md) reports
each unknown key and each wrong value, with the allowed values.

`MCPServer(...)` takes the settings of a server as keywords in lower case: `MCPServer("staff", page_size=50)`.

Whole numbers are at most 10**15, and seconds above 0 and below 1e9.
"""

EVERYWHERE = (", at most 10**15", " above 0 and below 1e9")
"""What the head says of all numbers."""

SECTIONS = {
    Scope.OWN: """## The default server

`DJANGO_MCP` sets these for the default server only. Each other server has its own, as keywords; its name is
the first argument. All texts may be lazy translations.
""",
    Scope.BOTH: """## All servers

`DJANGO_MCP` sets these for all servers. A keyword of a server overrides them.
""",
    Scope.SITE: """## The whole site

These are no keywords of `MCPServer(...)`.
""",
}

TAIL = """## Django's settings

These settings of Django matter here: `ALLOWED_HOSTS`, `USE_X_FORWARDED_HOST`, `SECURE_PROXY_SSL_HEADER`,
`LANGUAGES` and `USE_I18N`. `DATA_UPLOAD_MAX_MEMORY_SIZE` does not apply: `MAX_BODY_BYTES` does.
"""


def page() -> str:
    """Return the whole page."""
    sections = [f"{text}\n{_table(scope)}" for scope, text in SECTIONS.items()]
    return "\n".join([HEAD, *sections, TAIL])


def _table(scope: Scope) -> str:
    rows = [_row(name, each) for name, each in SETTINGS.items() if each.scope is scope]
    return "\n".join(
        ["| Setting | Default | Allowed values | Meaning |", f"|{' --- |' * 4}", *rows, ""]
    )


def _row(name: str, setting: Setting) -> str:
    default = setting.default
    shown = repr(default).replace("'", '"')
    wanted = setting.rule.wanted
    for each in EVERYWHERE:
        wanted = wanted.replace(each, "")
    cells = [f"`{name}`", f"`{shown}`", f"{wanted[0].upper()}{wanted[1:]}.", setting.help]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
