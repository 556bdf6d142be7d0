"""What a snapshot of a server, and a list of its skills, say of a skill beyond its resource."""

from __future__ import annotations

from hashlib import sha256

from django_mcp.extensions.skills.core.index import SkillIndex, skill_of
from django_mcp.protocol.json import JSONObject, encode_sorted
from django_mcp.registry.entries import Entry
from django_mcp.servers import MCPServer


def describe_entry(server: MCPServer, entry: Entry) -> JSONObject:
    """Return the front matter and the files of a skill, with one digest of all, under `skill`; `{}` for other entries."""
    skill = skill_of(entry)
    if skill is None:
        return {}
    index = SkillIndex(server.registry)
    wire = index.to_wire(index.skills[skill.uri], bool)
    files = wire["resources"]
    about: JSONObject = {"frontmatter": wire["frontmatter"], "files": files}
    if isinstance(files, list):
        about["files"] = {file["uri"]: file["digest"] for file in files}
        about["digest"] = f"sha256:{sha256(encode_sorted(about['files'])).hexdigest()}"
    return {"skill": about}
