"""PyMySQL in place of mysqlclient, which has the same interface but needs a compiler; imported before Django's backend."""

from __future__ import annotations

import pymysql

# Django demands a version of mysqlclient.
pymysql.version_info = (2, 2, 7, "final", 0)
pymysql.install_as_MySQLdb()
