"""Draft a `SKILL.md` from tools, for a person to edit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django_mcp.extensions.skills.core.front_matter import write_front_matter
from django_mcp.extensions.skills.core.skill import DRAFTED, SKILL_FILE, check_path
from django_mcp.registry.entries import ToolEntry


def draft(path: str, server_name: str, tools: Iterable[ToolEntry]) -> tuple[str, str]:
    """Return the path of the file below a folder of skills, and its text.

    Raises:
        ValueError: the path is none of a skill; the text says what it may be.
    """
    problem = check_path(path)
    if problem is not None:
        raise ValueError(problem)
    # Those that look come before those that write.
    ordered = sorted(tools, key=_rank)
    name = path.rpartition("/")[2]
    used = ", ".join(tool.name for tool in ordered)
    description = f"{DRAFTED}: say what this does, and when to use it. It uses the tools {used}."
    lines = [
        write_front_matter({"name": name, "description": description[:1000]}),
        f"# {name.replace('-', ' ').capitalize()}",
        "",
        f"<!-- Drafted from the tools of {server_name}. Write what a person would do who knows the work: the order of",
        "the steps, what to ask the user, when to stop. Then delete this comment. -->",
        "",
    ]
    for number, tool in enumerate(ordered, 1):
        lines += _write_step(number, tool)
    return f"{path}/{SKILL_FILE}", "\n".join((*lines, ""))


def _rank(tool: ToolEntry) -> int:
    hints = tool.annotations
    return 0 if hints["readOnlyHint"] else 1 + hints["destructiveHint"]


def _write_step(number: int, tool: ToolEntry) -> Iterator[str]:
    about = " ".join(str(tool.description or "").partition("\n\n")[0].split())
    asks = "Ask the user for a clear yes. Then call" if _rank(tool) == 2 else "Call"
    yield f"{number}. {asks} `{tool.name}`{': ' if about else '.'}{about}"
    required = tool.input_schema.get("required", ())
    for name, schema in tool.published(tool.input_schema).get("properties", {}).items():
        text = " ".join(str(schema.get("description", "")).split())
        optional = "" if name in required else " (optional)"
        yield f"   - `{name}`{optional}{': ' if text else ''}{text}"
