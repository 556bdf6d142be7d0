"""A server for tests of the core, without Django: a plain implementation of each port that a site provides."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django_mcp.memory_ports import extensions_in_memory, ports_in_memory
from django_mcp.registry.registry import Registry
from django_mcp.registry.returns import ResultConverter
from django_mcp.server.engine import Engine
from django_mcp.server.extension_loading import check_names, load_extensions
from django_mcp.server.memory import PlainConverter
from django_mcp.server.options import OPTIONS, Options
from django_mcp.server.server import BaseServer
from django_mcp.server.setting import check_options


class MCPServer(BaseServer):
    """A server without Django."""

    converter: ResultConverter = PlainConverter()

    def __init__(self, name: str, **options: Any) -> None:
        check_options(options, OPTIONS)
        super().__init__(Registry(), self.converter)
        self._given = Options(name=name, **options)
        self.clock: Callable[[], float] = time.time

    def _make_options(self) -> Options:
        return self._given

    def _make_engine(self) -> Engine:
        registry = self.registry
        ports = ports_in_memory(self.options, clock=lambda: self.clock())  # noqa: PLW0108 - it is changed
        extensions = [
            *extensions_in_memory(ports.clock),
            *(each() for each in load_extensions(self.options.extensions)),
        ]
        check_names(extensions)
        return Engine(ports, registry, self.options, extensions)
