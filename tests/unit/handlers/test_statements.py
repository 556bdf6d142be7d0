"""Which statements a transaction is opened for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mcp.handlers.statements import may_write

READS = [
    "SELECT 1",
    "select id from shop_order",
    "  \n(SELECT 1) UNION (SELECT 2)",
    "-- a note\nSELECT 1",
    "/* route=mcp */ SELECT 1",
    "/* one */ -- two\n /* three */SELECT 1",
    'SELECT "info", "format", "lockable" FROM "t" WHERE "for_sale"',
    "WITH old AS (SELECT 1) SELECT * FROM old",
    "EXPLAIN SELECT 1",
    "SHOW search_path",
    "PRAGMA foreign_keys = OFF",
    "VALUES (1)",
    "SET search_path = tenant",
    "BEGIN",
    'SAVEPOINT "s1"',
    'RELEASE SAVEPOINT "s1"',
    'ROLLBACK TO SAVEPOINT "s1"',
    "COMMIT",
    "VACUUM",
    "ALTER SESSION SET NLS_TERRITORY = 'AMERICA'",
]
WRITES = [
    "INSERT INTO t VALUES (1)",
    "update t set a = 1",
    "/* SELECT */ DELETE FROM t",
    "-- SELECT\nDELETE FROM t",
    "SELECT * FROM t FOR UPDATE",
    "select * from t for no key update skip locked",
    "SELECT * FROM t\nFOR\n  SHARE",
    "SELECT * FROM t LOCK IN SHARE MODE",
    "SELECT * INTO copy FROM t",
    "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
    "with x as (insert into t values (1) returning *) select * from x",
    "EXPLAIN ANALYZE DELETE FROM t",
    "ALTER TABLE t ADD COLUMN a int",
    "CREATE TABLE t (a int)",
    "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE",
    "CALL tidy()",
    "TRUNCATE t",
    "NOTIFY orders",
    "",
    "/* never closed",
]


@pytest.mark.parametrize("sql", READS)
def test_what_reads_or_steers_the_connection_needs_no_transaction(sql: str):
    assert not may_write(sql)


@pytest.mark.parametrize("sql", WRITES)
def test_what_writes_or_locks_needs_one(sql: str):
    assert may_write(sql)


def test_sql_in_a_form_we_cannot_read_needs_one():
    from psycopg import sql

    assert may_write(sql.SQL("SELECT {}").format(1))
    assert may_write(b"SELECT 1")


@given(st.text(alphabet="SELECTFORUPDATE selectinto/*-\n();", max_size=200))
def test_any_text_has_an_answer(sql: str):
    assert may_write(sql) in (True, False)
