"""The rows of a site in its database, as another program sees them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from psycopg import sql

from tests.support.backends import connect

TABLES = ("session", "sessionitem", "subscription", "stream", "streamevent", "pendinganswer")
SETTLING_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Counts rows of one database."""

    name: str

    def count(self, table: str) -> int:
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(f"django_mcp_{table}"))
        with connect(self.name) as connection:
            return int(connection.execute(query).fetchone()[0])  # type: ignore[index]

    def counts(self) -> dict[str, int]:
        return {table: self.count(table) for table in TABLES}

    def of(self, user: str) -> int:
        """Return how many sessions a user has."""
        query = "SELECT count(*) FROM django_mcp_session WHERE principal_key LIKE %s"
        with connect(self.name) as connection:
            return int(connection.execute(query, [f"%{user}"]).fetchone()[0])  # type: ignore[index]

    def streams_of(self, pid: int) -> int:
        """Return how many open streams are recorded for a process."""
        query = (
            "SELECT count(*) FROM django_mcp_stream s JOIN django_mcp_worker w"
            " ON w.id = s.worker_id WHERE w.pid = %s"
        )
        with connect(self.name) as connection:
            return int(connection.execute(query, [pid]).fetchone()[0])  # type: ignore[index]

    def has_worker(self, pid: int) -> bool:
        """Return whether a process is recorded."""
        query = "SELECT 1 FROM django_mcp_worker WHERE pid = %s"
        with connect(self.name) as connection:
            return connection.execute(query, [pid]).fetchone() is not None

    async def settled(self) -> dict[str, int]:
        """Return the counts once writing has finished: rows are written in batches."""
        async with asyncio.timeout(SETTLING_S):
            last = self.counts()
            while True:
                await asyncio.sleep(1.5)
                found = self.counts()
                if found == last:
                    return found
                last = found
