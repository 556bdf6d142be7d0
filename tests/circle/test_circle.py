"""The sites of the circle, walked through one after the other; see `tests.circle.walk`.

They need the packages of `tests/circle/requirements.txt`, in an environment of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from importlib.util import find_spec

import pytest

from tests.circle.known import KNOWN
from tests.circle.sites import SITES
from tests.support.sites import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        # Who names sites, as CI does, has to have the packages.
        "CIRCLE_SITES" not in os.environ and find_spec("oscar") is None,
        reason="needs the packages of tests/circle/requirements.txt",
    ),
]

_chosen = os.environ.get("CIRCLE_SITES", "").split() or list(SITES)


@pytest.mark.parametrize("site", _chosen)
def test_no_tool_of_a_site_fails(site: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.circle.walk", site]
    # What the guard against slow patterns reaches of a large package depends on the order of sets.
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    walk = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert walk.returncode == 0, walk.stderr
    faults = [tuple(json.loads(line)) for line in walk.stdout.splitlines()]

    unknown, seen = [], set()
    for user, tool, kind, text in faults:
        patterns = [
            known
            for known in KNOWN.get(site, {})
            if fnmatchcase(tool, known[0]) and known[1] == kind
        ]
        seen.update(patterns)
        if not patterns:
            unknown.append(f"{tool}, {kind}, as {user or 'nobody'}: {text}")

    assert not unknown, "\n".join(unknown)
    # What is mended is no known fault any more.
    assert seen == set(KNOWN.get(site, {}))
