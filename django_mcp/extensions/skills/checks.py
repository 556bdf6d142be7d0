"""System checks of skills."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error

from django_mcp.checks.declared import check
from django_mcp.checks.site import find_project_folders
from django_mcp.extensions.skills.core.folders import Problem, read_skills
from django_mcp.extensions.skills.core.index import Served, SkillIndex
from django_mcp.extensions.skills.core.skill import DRAFTED, SKILL_FILE, Skill, uri_of
from django_mcp.extensions.skills.site.naming import Names
from django_mcp.extensions.skills.site.registration import FOLDER, find_roots
from django_mcp.registry.problems import LIKENESS, find_near
from django_mcp.servers import MCPServer, all_servers

_ERRORS: Mapping[str, tuple[str, str]] = {
    "front_matter": (
        "django_mcp.skills.E001",
        "The front matter is YAML between two lines ---, with a name and a description.",
    ),
    "name": ("django_mcp.skills.E002", "Hosts find a skill by the name of its folder."),
    "link": ("django_mcp.skills.E003", "Copy the file into the folder of the skill."),
    "encoding": ("django_mcp.skills.E004", "Hosts compare each byte with a digest. A .gitattributes with `skills/** -text` keeps them."),
    "limit": ("django_mcp.skills.E005", "Leave out what a model does not need, or make several skills of it."),
    "file": ("django_mcp.skills.E007", "Only files that this process can read are served."),
    "folder": ("django_mcp.skills.E007", "Only folders that this process can read are searched."),
}  # fmt: skip
"""The ids of problems by their kind, with hints."""


@check()
def check_folders() -> Iterator[CheckMessage]:
    """Report skills in folders that are not served, and why."""
    for server in all_servers():
        seen: dict[str, Skill] = {}
        for root in find_roots(server):
            found = read_skills(root.path)
            yield from map(_to_error, found.problems)
            for folder in found.without_skill:
                yield checks.Warning(
                    f"{folder} has Markdown files and no {SKILL_FILE}, so it is no skill.",
                    hint=f"Name the file with the instructions {SKILL_FILE}. Silence this if it is not meant as one.",
                    id="django_mcp.skills.W007",
                )
            for skill in found.skills:
                other = seen.setdefault(skill.uri, skill)
                if other is not skill:
                    yield _duplicate(skill, other.folder)
                    continue
                entry = server.registry.resources.get(skill.uri)
                if entry is not None and _generates(server, skill):
                    yield _duplicate(skill, entry.source)
        yield from _check_permissions(server, seen)


def _to_error(problem: Problem) -> Error:
    id, hint = _ERRORS[problem.kind]
    return Error(
        f"A skill is not served. {problem.place}: {problem.text}.",
        hint=hint,
        id=id,
    )


def _generates(server: MCPServer, skill: Skill) -> bool:
    served = SkillIndex(server.registry).skills.get(skill.uri)
    return served is None or served.skill.files is None


def _duplicate(skill: Skill, other: str) -> Error:
    return Error(
        f"The skill in {skill.folder} is not served, since another has its URI {skill.uri}: {other}.",
        hint="Rename the folder and the skill, or put it into a folder of its own, such as shop/refunds.",
        id="django_mcp.skills.E006",
    )


def _check_permissions(server: MCPServer, skills: Mapping[str, Skill]) -> Iterator[CheckMessage]:
    for path in server.options.skills_permissions or {}:
        if not any(uri.startswith(f"{uri_of(path)}/") for uri in skills):
            yield Error(
                f"SKILLS_PERMISSIONS of {server!r} has {path!r:.80}, where no skill is, so it protects none.",
                hint="Write the path of a skill below its folder `skills`, or of a folder that it is in.",
                id="django_mcp.skills.E008",
            )


@check()
def check_places() -> Iterator[CheckMessage]:
    """Report folders with skills that no server has."""
    served = {root.path.resolve() for server in all_servers() for root in find_roots(server)}
    for folder in _find_unserved(served):
        yield checks.Warning(
            f"{folder} has skills that no server serves.",
            hint="Move it into an app, as its folder skills, or name it in DJANGO_MCP['SKILLS_DIRS']. Silence this if "
            "they are not for MCP.",
            id="django_mcp.skills.W006",
        )


def _find_unserved(served: Collection[Path]) -> Iterator[Path]:
    """Yield the folders where skills are looked for in vain: beside apps, and in them under another name."""
    base = getattr(settings, "BASE_DIR", None)
    projects = [Path(base)] if isinstance(base, str | Path) else []
    projects += [folder for _package, folder in find_project_folders()]
    own = [Path(config.path) for config in apps.get_app_configs()]
    own = [path for path in own if not _INSTALLED.intersection(path.parts)]
    for folder in dict.fromkeys([*projects, *own]):
        for path in sorted(each for each in folder.glob("*") if each.is_dir()):
            is_named_so = bool(find_near(path.name, [FOLDER], cutoff=LIKENESS))
            resolved = path.resolve()
            is_served = any(
                resolved == each or resolved in each.parents or each in resolved.parents
                for each in served
            )
            if is_named_so and not is_served and any(path.glob(f"*/{SKILL_FILE}")):
                yield path


_INSTALLED = frozenset(("site-packages", "dist-packages"))


@check()
def check_skills() -> Iterator[CheckMessage]:
    """Report what hosts cannot load, or cannot tell apart."""
    for server in all_servers():
        names = Names(server)
        index = names.index
        named: dict[str, list[str]] = defaultdict(list)
        for served in index.skills.values():
            named[served.skill.name].append(served.skill.uri)
            if served.skill.description.startswith(DRAFTED):
                yield checks.Warning(
                    f"{served.skill.uri} of {server!r} is a draft of mcp_skill that nobody has edited.",
                    hint="Say in the description what it does and when to use it, and write its steps.",
                    id="django_mcp.skills.W004",
                )
            yield from _check_parts(index, served)
            for problem, hint in names.find_wrong(served.skill):
                yield checks.Warning(
                    f"{served.skill.uri} of {server!r}: {problem}.",
                    hint=hint,
                    id="django_mcp.skills.W005",
                )
        for name, uris in named.items():
            if len(uris) > 1:
                yield checks.Warning(
                    f"Several skills of {server!r} have the name {name}: {', '.join(uris)}.",
                    hint="A user chooses a skill by its name.",
                    id="django_mcp.skills.W001",
                )
        most = server.options.max_result_bytes
        for uri, (_served, file) in index.files.items():
            size = len(file.content) if file.is_text else len(file.content) * 4 // 3
            if size > most - 1024:
                yield checks.Warning(
                    f"{uri} of {server!r} cannot be read: it has {len(file.content)} bytes, and a result at most "
                    f"{most}.",
                    hint="Make the file smaller, or raise MAX_RESULT_BYTES.",
                    id="django_mcp.skills.W002",
                )


def _check_parts(index: SkillIndex, served: Served) -> Iterator[CheckMessage]:
    is_dynamic = index.to_wire(served, bool)["resources"] == "dynamic"
    if is_dynamic and served.skill.files is not None:
        yield checks.Warning(
            f"{served.skill.uri} has a generated skill inside, so hosts cannot verify its files.",
            hint="Give the generated skill a path outside of this one.",
            id="django_mcp.skills.W003",
        )
