"""The server of the site, where every transport finds it."""

from __future__ import annotations

from tests.support.site.guarded.servers import make_server

server = make_server()
