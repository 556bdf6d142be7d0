"""Print what it costs to register the tools of an admin with many models: `python -m tests.benchmarks.registering`.

Each of the 80 models has eleven fields, and its admin three filters, a search and dates. Processor time in seconds,
the least of several fresh interpreters; Django is set up before. With `--instructions` it counts these, which a
busy machine does not change.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from tests.benchmarks.pairs import INSIDE, count_instructions, start_counting

MODELS = 80
RUNS = 7


def main() -> None:
    if sys.argv[1:] == ["once"]:
        print(*measure())
        return
    if sys.argv[1:] == ["--instructions"]:
        lines, totals = count_instructions(["tests.benchmarks.registering", "once"])
        print(f"{lines[0].split()[0]} tools: {totals[0] / 1e6:,.0f} million instructions")
        return
    command = [sys.executable, "-m", "tests.benchmarks.registering", "once"]
    runs = [subprocess.check_output(command, text=True).split() for _ in range(RUNS)]
    least_s = min(float(seconds) for _tools, seconds in runs)
    print(f"{runs[0][0]} tools: {least_s:.2f} s, {least_s / int(runs[0][0]) * 1000:.1f} ms each")


def measure() -> tuple[int, float]:
    """Return how many tools were registered, and in how many seconds of processor time."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django

    django.setup()
    from django.contrib import admin
    from django.contrib.auth.admin import UserAdmin
    from django.contrib.auth.models import User

    from django_mcp import MCPServer
    from django_mcp.contrib.modeladmin import admin_tools

    class ModelAdmin(admin.ModelAdmin):
        list_display = ("title", "status", "price", "created")
        list_filter = ("status", "is_on", "created")
        search_fields = ("title", "note")
        date_hierarchy = "created"

    site = admin.AdminSite("many")
    site.register(User, UserAdmin)
    for model in make_models():
        site.register(model, ModelAdmin)
    server = MCPServer("registering")
    if INSIDE in os.environ:
        start_counting()
    begun_s = time.process_time()
    admin_tools(server=server, site=site, models="__all__")
    taken_s = time.process_time() - begun_s
    os.sched_yield()  # Here callgrind ends what it counts.
    return len(server.registry.tools), taken_s


def make_models() -> list[Any]:
    """Return models of which each has a relation to the one before."""
    from django.db import models

    made: list[Any] = []
    for number in range(MODELS):
        attributes: dict[str, Any] = {
            "__module__": "tests.support.library.models",
            "Meta": type("Meta", (), {"app_label": "library"}),
            "title": models.CharField(max_length=100),
            "status": models.CharField(max_length=20, choices=[("a", "A"), ("b", "B")]),
            "price": models.DecimalField(max_digits=8, decimal_places=2),
            "created": models.DateTimeField(auto_now_add=True),
            "is_on": models.BooleanField(default=True),
            "count": models.IntegerField(default=0),
            "note": models.TextField(blank=True),
            "email": models.EmailField(blank=True),
            "url": models.URLField(blank=True),
            "day": models.DateField(null=True, blank=True),
        }
        if made:
            attributes["before"] = models.ForeignKey(made[-1], models.CASCADE, null=True)
        made.append(type(f"Made{number}", (models.Model,), attributes))
    return made


if __name__ == "__main__":
    main()
