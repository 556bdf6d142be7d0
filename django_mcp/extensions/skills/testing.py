"""List the skills of a server in a test, and verify one as a host does."""

from __future__ import annotations

import binascii
from hashlib import sha256
from typing import Any

from django_mcp.extensions.skills.core.front_matter import FrontMatterError, read_front_matter
from django_mcp.extensions.skills.core.skill import DYNAMIC, MAX_BYTES, MAX_FILES, SKILL_FILE
from django_mcp.extensions.skills.site.naming import Names
from django_mcp.inprocess.results import MCPError
from django_mcp.protocol.json import JSONObject
from django_mcp.test.conversation import BaseClient


async def list_skills(client: BaseClient) -> list[JSONObject]:
    """Return the entries of all skills that the user sees; see `MCPClient.skills`."""
    if not client._revision.is_stateless:
        raise MCPError(f"{client.revision} has no skills: its clients see them as resources.")
    skills: list[JSONObject] = []
    params: JSONObject = {}
    while True:
        page = await client._request("skills/list", params)
        skills += page["skills"]
        if "nextCursor" not in page:
            return skills
        params = {"cursor": page["nextCursor"]}


async def assert_skill_verifies(client: BaseClient, uri: str) -> None:
    """Raise `AssertionError` unless a host can load a skill; see `MCPClient.assert_skill_verifies`."""
    skill = (await client._request("skills/get", {"uri": uri}))["skill"]
    problems: list[str] = []
    files = skill["resources"]
    if files == DYNAMIC:
        files = [{"uri": uri}]
    elif len(files) > MAX_FILES or sum(file["size"] for file in files) > MAX_BYTES:
        problems.append("it is larger than hosts have to load")
    names = Names(client.server)
    served = names.index.skills.get(uri)
    if served is not None:
        problems += [problem for problem, _hint in names.find_wrong(served.skill)]
    for file in files:
        content = await _read(client, file["uri"])
        if "size" in file and len(content) != file["size"]:
            problems.append(f"{file['uri']} has {len(content)} bytes, not {file['size']}")
        digest = f"sha256:{sha256(content).hexdigest()}"
        if digest != file.get("digest", digest):
            problems.append(f"{file['uri']} has another digest")
        if file["uri"] == uri:
            text = content.decode(errors="replace")
            problems += _compare(text, skill["frontmatter"])
            if served is not None and served.skill.files is None:
                found = names.find_wrong_in(text, served.skill)
                problems += [f"{SKILL_FILE} {problem}" for problem, _hint in found]
    assert not problems, f"{uri}: " + "; ".join(problems)  # noqa: S101 - for tests


def _compare(text: str, told: Any) -> list[str]:
    try:
        front_matter = read_front_matter(text)
    except FrontMatterError as error:
        return [f"its front matter cannot be read: {error}"]
    return [] if front_matter == told else ["its front matter differs from its entry"]


async def _read(client: BaseClient, uri: str) -> bytes:
    (contents,) = (await client._request("resources/read", {"uri": uri}))["contents"]
    if "blob" in contents:
        return binascii.a2b_base64(contents["blob"])
    text: str = contents["text"]
    return text.encode()
