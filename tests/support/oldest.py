"""Print the runtime dependencies at the oldest version that pyproject.toml allows, one a line."""

from __future__ import annotations

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())
for requirement in project["project"]["dependencies"]:
    name, _, bounds = requirement.partition(">=")
    print(f"{name}~={bounds.partition(',')[0]}.0")
