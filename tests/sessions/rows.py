"""What the processes of a site have in their database, as another program sees it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

TABLES = ("session", "sessionitem", "subscription", "stream", "streamevent", "pendinganswer")
SETTLING_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Counts rows of one database."""

    name: str
    host: str
    port: int

    def connect(self, name: str | None = None) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host=self.host,
            port=self.port,
            user=os.environ.get("PGUSER", "postgres"),
            password=os.environ.get("PGPASSWORD", ""),
            dbname=name or self.name,
            autocommit=True,
        )

    def count(self, table: str) -> int:
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(f"django_mcp_{table}"))
        with self.connect() as connection:
            return int(connection.execute(query).fetchone()[0])  # type: ignore[index]

    def counts(self) -> dict[str, int]:
        return {table: self.count(table) for table in TABLES}

    def of(self, user: str) -> int:
        """Return how many sessions a user has."""
        query = "SELECT count(*) FROM django_mcp_session WHERE principal_key LIKE %s"
        with self.connect() as connection:
            return int(connection.execute(query, [f"%{user}"]).fetchone()[0])  # type: ignore[index]

    async def settled(self) -> dict[str, int]:
        """Return the counts once nothing is written any more: rows go out in batches."""
        async with asyncio.timeout(SETTLING_S):
            last = self.counts()
            while True:
                await asyncio.sleep(1.5)
                found = self.counts()
                if found == last:
                    return found
                last = found
