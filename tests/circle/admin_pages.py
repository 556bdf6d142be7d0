"""The pages of the admin, with which the walk compares the tools."""

from __future__ import annotations

import sys
from typing import Any

from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.circle.tools_of_model import undone


class AdminPages:
    """The pages of the admin, as the site itself shows them to a user."""

    def __init__(self, user: Any) -> None:

        self._browser = Client()
        if user is not None:
            self._browser.force_login(user)

    def status(self, model: Any) -> int:
        """Return the status of the list of a model; 500, if it cannot be made."""
        meta = model._meta
        try:
            path = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")
            with undone():
                return self._browser.get(path).status_code
        except Exception:  # noqa: BLE001  (templates of packages may need what no site here has)
            return 500

    def list(self, model: Any) -> tuple[int, int] | None:
        """Return how many rows the list has, and how many queries each of two further rows costs."""

        meta = model._meta
        model_admin = admin.site._registry[model]
        counts, rows = [], 0
        usual = model_admin.list_per_page
        try:
            path = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")
            for size in (1, 3):
                model_admin.list_per_page = size  # type: ignore[misc]
                with undone(), CaptureQueriesContext(connection) as queries:
                    response = self._browser.get(path)
                    if response.status_code != 200 or "cl" not in (response.context or {}):
                        if "--pages" in sys.argv:
                            print(f"the page of {meta.label}: {response}", file=sys.stderr)
                        return None
                    rows = response.context["cl"].result_count
                counts.append(len(queries))
        except Exception as error:  # noqa: BLE001
            if "--pages" in sys.argv:
                print(f"the page of {meta.label}: {error!r}", file=sys.stderr)
            return None
        finally:
            model_admin.list_per_page = usual  # type: ignore[misc]
        return rows, counts[1] - counts[0]
