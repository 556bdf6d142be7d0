"""Write the table in docs/reference/checks.md from the system checks: `python -m tests.support.checks_page`.

The explanations below the table are written by hand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "checks.md"
PACKAGE = ROOT / "django_mcp"

BEGIN = "<!-- Written by `python -m tests.support.checks_page` from the code; a test compares. Do not edit. -->\n"
END = "<!-- Here the written table ends. -->\n"

TEXTS = {
    "django_mcp.E001": "A value in `DJANGO_MCP` is wrong, or `DJANGO_MCP` is not a dict.",
    "django_mcp.E002": "`DJANGO_MCP` has a key that is no setting, or nothing reads a setting such as "
    "`DJANGO_MCP_PAGE_SIZE`.",
    "django_mcp.E006": "An authenticator of a server cannot be loaded or created.",
    "django_mcp.E007": "An authenticator needs something that the site lacks, such as the sessions app.",
    "django_mcp.E010": "An authenticator of bearer tokens names no authorization server, so clients cannot "
    "find out where to get a token.",
    "django_mcp.M001": "Nothing defines which objects a user may see.",
    "django_mcp.M002": "An option names a field that looks like a secret.",
    "django_mcp.M003": "An option names a field or lookup that does not exist or cannot be used.",
    "django_mcp.M004": "Several objects may have the same value of `lookup_field`, or the field cannot "
    "order the objects.",
    "django_mcp.M005": "An option for writing is wrong: `writes`, `update_many`, `writable`, `form` or `version_field`.",
    "django_mcp.M006": "The class, or one that it is mixed from, has an attribute that nothing reads.",
    "django_mcp.O015": "A tool or `OAUTH_BASE_SCOPES` names scopes that no token can have, or there is no "
    "scope at all.",
    "django_mcp.O016": "The metadata is not at the root of the site, where clients look for it.",
    "django_mcp.O017": "The URLconf also includes django-oauth-toolkit's own URLs.",
    "django_mcp.O018": "Sessions, users or the CSRF check are missing from `MIDDLEWARE`.",
    "django_mcp.O019": "`LOGIN_URL` leads nowhere.",
    "django_mcp.O020": "Clients would not accept the URLs in the metadata.",
    "django_mcp.O021": "The caller determines the host of the URLs in the metadata.",
    "django_mcp.O022": "A server accepts tokens of this site's authorization server, which does not exist.",
    "django_mcp.O024": "A scope that a tool names is not described, while others are.",
    "django_mcp.W006": "Everybody may use tools of a public server that are not read-only. With `DEBUG`, only "
    "`check --deploy` reports it.",
    "django_mcp.W007": "A mounted server rejects everybody, because it is neither public nor has authenticators.",
    "django_mcp.W012": "A server accepts tokens of another issuer, and no metadata names this issuer.",
    "django_mcp.drf.I001": "A tool leaves out files, or filters with regular expressions of the client.",
    "django_mcp.drf.I002": "A REST view reads parameters of the query that its tool lacks.",
    "django_mcp.drf.W001": "An action of a REST view is no tool yet.",
    "django_mcp.drf.W002": "An action of a REST view cannot become a tool.",
    "django_mcp.drf.W003": "A tool of a REST view cannot be called, since no open URL of the site fits it.",
    "django_mcp.drf.W004": "A tool of a REST view lacks the arguments of a filter backend, which cannot tell "
    "them without a call.",
    "django_mcp.drf.W005": "An action of a REST view is no tool, since it is about passwords, tokens or sign-ins.",
    "django_mcp.drf.W006": "A REST view reads the body of its request, for which its tool has no arguments.",
    "django_mcp.drf.W007": "`kwargs=` of a REST view names a variable that no URL of the view has.",
    "django_mcp.modeladmin.I001": "A filter or the search of an admin does not become an argument, or leaves "
    "out a field.",
    "django_mcp.modeladmin.W001": "`admin_tools()` creates no tool of a model, or of something that the admin "
    "can do with it.",
    "django_mcp.apps.E001": "A tool names a template for its page that no engine finds.",
    "django_mcp.W050": "Nothing reads a setting such as `MCP_THROTTLE`, which has the name of one of `DJANGO_MCP`.",
    "django_mcp.apps.E002": "A page cannot be rendered in one of the languages of the site.",
    "django_mcp.apps.E003": "A page of its own has no place for the fields of a form.",
    "django_mcp.apps.E004": "A form starts with the result of a tool that does not exist.",
    "django_mcp.apps.W001": "A tool has a page, and no structured output for it.",
    "django_mcp.apps.W002": "A page loads something from an address that its app does not declare.",
    "django_mcp.apps.W003": "A page has a fault: it lacks a title, a language or labels, or has what hosts do not do.",
    "django_mcp.apps.W004": "A tool has `visible_to='app'`, and no page calls it.",
    "django_mcp.cards.W001": "Clients would refuse the card of a server.",
    "django_mcp.apps.I001": "A `ModelForm` opens empty, though its tool has arguments that may name the object to change.",
    "django_mcp.apps.W010": "A page calls a tool that its server does not have.",
    "django_mcp.apps.W014": "A function of `Confirm` or of `App(initial=...)` never returns a value.",
    "django_mcp.apps.W015": "A page uses a variable such as `user`, which is empty in it.",
    "django_mcp.apps.W016": "A tool has a fragment, and its page no place for it.",
    "django_mcp.apps.W011": "A page calls a tool with an argument that it does not have.",
    "django_mcp.apps.W012": "A page refers to an element or a tool that is not there.",
    "django_mcp.apps.W013": "A page shows a value that no result of its tools has.",
    "django_mcp.skills.E001": "The front matter of a skill cannot be read, or lacks the description.",
    "django_mcp.skills.E002": "The name of a skill is not that of its folder, or a name is not allowed.",
    "django_mcp.skills.E003": "A symbolic link in the folder of a skill leaves it, or leads to a folder.",
    "django_mcp.skills.E004": "A `SKILL.md` is not UTF-8, or has a byte order mark or CR LF; or the name of a file is not UTF-8.",
    "django_mcp.skills.E005": "A skill has more than 512 files or 16 MiB, or its folders are too deep or too many.",
    "django_mcp.skills.E006": "Two skills of a server have the same path.",
    "django_mcp.skills.E007": "A file or a folder with skills cannot be read, or is a device or a pipe.",
    "django_mcp.skills.E008": "`SKILLS_PERMISSIONS` has a path where no skill is.",
    "django_mcp.skills.W001": "Several skills of a server have the same name.",
    "django_mcp.skills.W002": "A file of a skill is larger than a result may be.",
    "django_mcp.skills.W004": "A draft of a skill has not been edited.",
    "django_mcp.skills.W005": "A skill names a tool, a resource or a file that is not there.",
    "django_mcp.skills.W006": "A folder has skills that no server serves.",
    "django_mcp.skills.W007": "A folder beside the skills has Markdown files and no `SKILL.md`.",
    "django_mcp.skills.W003": "A generated skill is inside of one in a folder, which hosts then cannot verify.",
    "django_mcp.apps.W009": "A tool has `confirm=`, and a page of its own without a place for the question.",
    "django_mcp.apps.W007": "A ready-made page names a member that the results of its tool do not have.",
    "django_mcp.apps.W008": "A ready-made page names buttons that nobody sees.",
    "django_mcp.M012": "A `name_field` names no text field, or its class is registered too late.",
    "django_mcp.modeladmin.W002": "An admin overrides or adds views of its pages, which tools do not run.",
    "django_mcp.modeladmin.W003": "An action of an admin, or a model, is no tool, since it is about passwords, "
    "tokens or sign-ins.",
    "django_mcp.modeladmin.W004": "An admin reads the session or cookies, which a call does not have.",
    "django_mcp.ninja.I001": "A tool leaves out files, or filters with regular expressions of the client.",
    "django_mcp.ninja.W001": "An operation of a Ninja API cannot become a tool.",
    "django_mcp.ninja.W002": "A tool of a Ninja API cannot be called, since no open URL of the site fits it.",
    "django_mcp.ninja.W003": "An operation of a Ninja API is no tool, since it is about passwords, tokens or "
    "sign-ins.",
}
"""What the table says of checks whose function reports several."""

CHECK_ID = re.compile(r"django_mcp\.(?:[a-z]+\.)?[EWIMO]\d{3}")
_NUMBER = re.compile(r"[EWIMO]\d{3}")
_LEVELS = {"E": "Error", "W": "Warning", "I": "Information"}
_OF_GENERATED = "check_generated"
"""The check that reports what the modules for views and the admin noted; its ids are in these modules."""


def block() -> str:
    """Return the table with the marks around it."""
    paths = [each for each in sorted(PACKAGE.rglob("*.py")) if "migrations" not in each.parts]
    texts = [each.read_text() for each in paths]
    # To parse all of the package takes a second.
    sources = [ast.parse(text) for text in texts if _NUMBER.search(text) or _OF_GENERATED in text]
    functions = [each for tree in sources for each in _functions(tree)]
    reports = _read_docstrings(functions)
    rows: dict[str, str] = {}
    for tree in sources:
        for id, around in _find_ids(tree):
            rule = next((each for each in around if _name_of(each) == "_Rule"), None)
            text = reports[id] if rule is None else ast.literal_eval(_keywords(rule)["message"])
            if rule is None and id in reports.shared:
                text = TEXTS[id]
            rows[id] = f"| `{id}` | {_level(id, around)} | {text[0].upper()}{text[1:]} |"
    head = ["| Check | Level | What it reports |", "| --- | --- | --- |"]
    return "\n".join([BEGIN, *head, *(rows[id] for id in sorted(rows, key=_order)), "", END])


def page() -> str:
    """Return the whole page with the table as it has to be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + block() + rest.partition(END)[2]


def explanations() -> str:
    """Return what is written by hand."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + rest.partition(END)[2]


def _functions(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names and the first line of the docstring of functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield node.name, text.split("\n\n")[0].replace("\n", " ")


class _Reports(dict[str, str]):
    """What docstrings say of each id; without one, it is `check_generated` that reports it.

    Attributes:
        shared: the ids whose docstring is about others too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shared: set[str] = set()

    def __missing__(self, id: str) -> str:
        self.shared.add(id)
        return self[_OF_GENERATED]


def _read_docstrings(functions: list[tuple[str, str]]) -> _Reports:
    found = _Reports()
    counts: dict[str, int] = {}
    for name, text in functions:
        if name == _OF_GENERATED:
            found[name] = text.removeprefix("Report ")
        start = re.match(r"(?:Return )?([EWIMO]\d{3}(?:(?:, | to )[EWIMO]\d{3})*): ", text)
        if start is None:
            continue
        ids = [f"django_mcp.{number}" for number in _numbers(start[1])]
        for id in ids:
            # The function about the fewest checks says most of each.
            if len(ids) < counts.get(id, 100):
                found[id], counts[id] = text[start.end() :], len(ids)
                (found.shared.discard if len(ids) == 1 else found.shared.add)(id)
    return found


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers that `E001, E002` or `M001 to M005` means."""
    for part in text.split(", "):
        first, _, last = part.partition(" to ")
        for number in range(int(first[1:]), int((last or first)[1:]) + 1):
            yield f"{first[0]}{number:03}"


def _find_ids(node: ast.AST, *around: ast.AST) -> Iterator[tuple[str, tuple[ast.AST, ...]]]:
    """Yield each id in the code with what is around it, the nearest first."""
    for child in ast.iter_child_nodes(node):
        value = child.value if isinstance(child, ast.Constant) else None
        if isinstance(value, str) and CHECK_ID.fullmatch(value):
            yield value, (node, *around)
        yield from _find_ids(child, node, *around)


def _level(id: str, around: tuple[ast.AST, ...]) -> str:
    """Return the level: the letter says it, but for OAuth and models."""
    letter = id.rpartition(".")[2][0]
    if letter in _LEVELS:
        return _LEVELS[letter]
    for each in around:
        if _name_of(each) in ("Warning", "checks.Warning") or "is_error" in _keywords(each):
            return "Warning"
        if _name_of(each) in ("Info", "checks.Info"):
            return "Information"
    return "Error"


def _name_of(node: ast.AST) -> str | None:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else None


def _keywords(node: ast.AST) -> dict[str | None, ast.expr]:
    return {each.arg: each.value for each in getattr(node, "keywords", ())}


def _order(id: str) -> tuple[str, int, str]:
    app, _, number = id.removeprefix("django_mcp.").rpartition(".")
    return app, "EWIMO".index(number[0]), number


if __name__ == "__main__":
    PAGE.write_text(page())
