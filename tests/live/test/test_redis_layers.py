"""The tests of the test kit, with the channel layers over Redis."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.backends import is_answering, redis_address, require
from tests.support.sites import ROOT

LAYERS = ["channels_redis.core.RedisChannelLayer", "channels_redis.pubsub.RedisPubSubChannelLayer"]
LIMIT_S = 600.0


@pytest.mark.services
@pytest.mark.parametrize("layer", LAYERS)
def test_the_kit_works_with_a_layer_over_redis(layer: str):
    require(is_answering(*redis_address()), "Redis does not answer")
    # Raises if a test hangs.
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "tests/unit/test",
        ],
        cwd=ROOT,
        env={**os.environ, "TEST_CHANNEL_LAYER": layer},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-30_000:] + done.stderr[-2000:]
