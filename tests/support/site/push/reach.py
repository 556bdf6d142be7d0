"""Reach clients from a separate process; prints the results as JSON."""

import asyncio
import json
import sys
from typing import Any

import django


def main(*arguments: str) -> None:
    django.setup()
    from django_mcp import default_server

    found: Any
    match arguments:
        case ["sessions"]:
            found = [each.key for each in default_server.connected_sessions()]
        case ["streams"]:
            found = [[each.id, each.kind, each.uris] for each in default_server.open_streams()]
        case ["ping", key]:
            found = default_server.ping_client(key, timeout_s=8)
        case ["close", stream]:
            default_server.close_stream(stream)
            found = "closed"
        case ["is_subscribed", uri]:
            found = default_server.is_subscribed(uri)
        case ["end", key]:
            found = default_server.close_session(key)
        case ["end on a loop", key]:
            found = asyncio.run(default_server.aclose_session(key))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
