"""Register skills on a server: each is the resource of its `SKILL.md`, which decides who may see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django_mcp.extensions.skills.core.front_matter import (
    FENCE,
    FrontMatterError,
    read_front_matter,
    write_front_matter,
)
from django_mcp.extensions.skills.core.skill import (
    EXTENSION,
    SKILL_FILE,
    Skill,
    check_front_matter,
    check_path,
)
from django_mcp.registry.access import Permission
from django_mcp.registry.decorators import Registration
from django_mcp.registry.entries import ResourceEntry
from django_mcp.registry.problems import RegistrationError, describe_source
from django_mcp.registry.signatures import is_async_callable

MIME_TYPE = "text/markdown"


def register_folder(
    entries: Registration,
    skill: Skill,
    *,
    permission: Permission = None,
    module: str = "skills",
) -> ResourceEntry:
    """Register a skill whose files were read; its toolset is that of the app that the module is in."""
    file = next(file for file in skill.files or () if file.path == SKILL_FILE)
    text = file.content.decode()

    async def read() -> str:
        return text

    read.__module__, read.__qualname__ = module, skill.path
    return _register(entries, skill, read, permission=permission, size=len(file.content))


def register_generated(
    entries: Registration,
    path: str,
    function: Callable[..., Any],
    *,
    front_matter: Mapping[str, Any],
    **options: Any,
) -> ResourceEntry:
    """Register a function that returns the instructions of a skill, without front matter.

    Args:
        entries: the server.
        path: of the skill.
        function: as that of a resource without arguments.
        front_matter: what is known of it; the name is that of the path.
        options: of the resource.

    Raises:
        RegistrationError: the path or the front matter is wrong.
    """
    source = describe_source(function)
    problem = check_path(path)
    if problem is not None:
        raise RegistrationError(f"{source}: as a skill, {problem}.")
    name = path.rpartition("/")[2]
    fields = {"name": name, **front_matter}
    for problem in check_front_matter(fields, name):
        raise RegistrationError(f"{source}: as the skill {path}, {problem}.")
    try:
        head = write_front_matter(fields)
    except (ValueError, TypeError) as error:
        raise RegistrationError(f"{source}: as the skill {path}: {error}.") from None

    def frame(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(
                f"a skill returned {type(value).__name__}, not the text of its instructions"
            )
        text = value.strip()
        if text.startswith(FENCE) and _has_front_matter(text):
            raise TypeError(
                "a skill returned front matter of its own: return the instructions alone, and give @skill the rest"
            )
        return f"{head}\n{text}\n"

    # With the parameters of the function, which the server fills.
    @wraps(function)
    async def generate_async(*args: Any, **kwargs: Any) -> str:
        return frame(await function(*args, **kwargs))

    @wraps(function)
    def generate(*args: Any, **kwargs: Any) -> str:
        return frame(function(*args, **kwargs))

    skill = Skill(path=path, front_matter=fields, files=None)
    is_async = is_async_callable(function)
    return _register(entries, skill, generate_async if is_async else generate, **options)


def _has_front_matter(text: str) -> bool:
    """Return whether a text begins with front matter, and not with a line across the page."""
    try:
        return not {"name", "description"}.isdisjoint(read_front_matter(text))
    except FrontMatterError:
        return False


def _register(
    entries: Registration,
    skill: Skill,
    function: Callable[..., Any],
    **options: Any,
) -> ResourceEntry:
    entry = entries.register_resource(
        skill.uri,
        function,
        name=skill.name,
        description=skill.description,
        mime_type=MIME_TYPE,
        extensions={EXTENSION: skill},
        **options,
    )
    if not isinstance(entry, ResourceEntry):  # a URI without variables
        raise TypeError(f"{skill.uri} is registered as {entry!r}")
    return entry
