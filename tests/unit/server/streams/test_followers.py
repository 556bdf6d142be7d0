from __future__ import annotations

from django_mcp.server.streams.followers import MAX_LIVE_BYTES
from tests.support.server.plain import MCPServer


async def test_messages_that_wait_for_a_slow_follower_are_limited_in_bytes() -> None:
    followers = MCPServer("tests").engine.hub.followers
    large, half = b"x" * (2 * MAX_LIVE_BYTES), b"x" * (MAX_LIVE_BYTES // 2)
    with followers.follow("stream") as follower:
        for message in (large, large, b"x"):
            followers.show("stream", message)
        assert await follower.wait(0) == [large]
        for message in (half, half, half):
            followers.show("stream", message)
        assert await follower.wait(0) == [half, half]
