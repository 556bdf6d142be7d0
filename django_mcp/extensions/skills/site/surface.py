"""What a snapshot of a server, and a list of its skills, say of a skill beyond its resource."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from django_mcp.extensions.skills.core.index import Sees, SkillIndex, skill_of
from django_mcp.protocol.json import JSONObject, encode_sorted
from django_mcp.registry.entries import Entry
from django_mcp.servers import MCPServer


def make_describer(server: MCPServer, sees: Sees = bool) -> Callable[[Entry], JSONObject]:
    """Return a function that says under `skill` what is in one: its front matter, digests by URI, and one of all.

    It returns `{}` for other entries. The files of a generated skill are `"dynamic"`.

    Args:
        server: has the skills.
        sees: returns whether a skill inside of another counts; by default all do.
    """
    index = SkillIndex(server.registry)

    def describe(entry: Entry) -> JSONObject:
        skill = skill_of(entry)
        if skill is None:
            return {}
        wire = index.to_wire(index.skills[skill.uri], sees)
        files = wire["resources"]
        about: JSONObject = {"frontmatter": wire["frontmatter"], "files": files}
        if isinstance(files, list):
            digests = {file["uri"]: file["digest"] for file in files}
            digest = f"sha256:{sha256(encode_sorted(digests)).hexdigest()}"
            size = sum(file["size"] for file in files)
            about |= {"files": digests, "digest": digest, "size": size}
        return {"skill": about}

    return describe
