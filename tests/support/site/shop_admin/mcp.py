import asyncio
from pathlib import Path

from django_mcp import tool


@tool(read_only=True)
async def wait_for(path: str) -> str:
    """Answer when there is a file."""
    while not await asyncio.to_thread(Path(path).exists):  # noqa: ASYNC110  (another process makes it)
        await asyncio.sleep(0.05)
    return "there it is"
