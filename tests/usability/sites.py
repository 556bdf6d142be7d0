"""Sets up a site in this process, and prints what a transcript came to there."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from tests.usability.transcripts import read_transcript

SITES = {
    "shop": "tests.usability.settings",
    "large": "tests.circle.settings",
    "compact": "tests.circle.settings",
}
"""The settings of each site."""


def run_site(name: str, file: Path | None) -> int:
    """Print the outcome of a transcript, or without one the tasks; return 1 if a task is not solved."""
    os.environ["DJANGO_SETTINGS_MODULE"] = SITES[name]
    os.environ["CIRCLE_SITE"] = "oscar"
    import django
    from django.core.management import call_command
    from django.test.utils import setup_test_environment

    django.setup()
    setup_test_environment()
    logging.disable(logging.ERROR)
    if name == "shop":
        from tests.usability.shop import make_site
    else:
        from tests.usability.large import make_site
    site = make_site(name)
    if file is None:
        for task in site.tasks:
            told = {"task": task.id, "user": task.user, "server": task.server}
            print(json.dumps({**told, "question": task.question}))
        return 0
    from tests.usability.replay import replay

    call_command("migrate", run_syncdb=True, verbosity=0)
    site.load()
    outcome = replay(site, read_transcript(file))
    print(
        f"{name}: {outcome.solved} of {len(site.tasks)} tasks solved, {outcome.calls} calls, "
        f"{outcome.errors} errors, {outcome.result_tokens} tokens of results"
    )
    for (server, user), tokens in outcome.listed.items():
        print(f"  the list of {server} for {user or 'visitors'}: {tokens} tokens")
    for key, reason in outcome.failed.items():
        print(f"  {key} is not solved: {reason}")
    return int(bool(outcome.failed))
