"""A program with the official Python client, which keeps its credentials in a file as editors do.

`python -m tests.support.oauth.program URL FILE` does what `tests/live/contrib/oauth/sign_in.mjs` does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

if TYPE_CHECKING:
    from tests.support.oauth.sdk import SDKClient


async def run(url: str, file: Path) -> None:
    from tests.support.oauth.sdk import SDKClient

    client = SDKClient(url, Person())  # type: ignore[arg-type]
    read(client, file)
    async with client.session() as session:
        await session.list_tools()
        keep(client, file)
        tell({"ready": True})
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip() == "expire":
                # The client trusts its own clock: it would sign in again if the server's were ahead.
                client.provider.context.token_expiry_time = 1.0
                tell({"text": "expired"})
                continue
            result: Any = await session.call_tool("find_orders", {})
            tell({"text": result.content[0].text})


def read(client: SDKClient, file: Path) -> None:
    """Read the file once, if there is one; the process then goes on with its own copy."""
    if not file.exists():
        return
    kept = json.loads(file.read_text())
    client.storage.tokens = OAuthToken.model_validate(kept["tokens"])
    client.storage.client = OAuthClientInformationFull.model_validate(kept["client"])
    # The client does not store it, and would look for the token endpoint at the root of the host.
    client.provider.context.oauth_metadata = OAuthMetadata.model_validate(kept["server"])


def keep(client: SDKClient, file: Path) -> None:
    """Write what another process needs."""
    found = {
        "tokens": client.storage.tokens,
        "client": client.storage.client,
        "server": client.provider.context.oauth_metadata,
    }
    kept = {
        name: value.model_dump(mode="json", exclude_none=True)
        for name, value in found.items()
        if value is not None
    }
    file.write_text(json.dumps(kept))


class Person:
    """Hands the authorization URL to the test, and returns what the redirect brings."""

    def visit(self, url: str) -> dict[str, str]:
        from tests.support.oauth.browser import callback_of

        tell({"visit": url})
        return callback_of(sys.stdin.readline().strip())


def tell(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    asyncio.run(run(sys.argv[1], Path(sys.argv[2])))
