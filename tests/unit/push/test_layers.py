"""How the log and commands name the site's channel layer."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from django_mcp.push.layers import describe_layer

REDIS = "channels_redis.pubsub.RedisPubSubChannelLayer"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"hosts": ["redis://cache:6390/2"]}, "cache:6390"),
        ({"hosts": ["rediss://me:s3cret@cache?password=s3cret"]}, "cache:6379"),
        ({"hosts": [("cache", 6390), ["other", 6391]]}, "cache:6390, other:6391"),
        ({"hosts": [{"address": "redis://:s3cret@cache:6390"}]}, "cache:6390"),
        ({"hosts": [{"host": "cache", "password": "s3cret"}]}, "cache:6379"),
        ({"hosts": [{"sentinels": [("watch", 26379)], "master_name": "m"}]}, "watch:26379"),
        ({"hosts": ["unix:///run/redis.sock?password=s3cret"]}, "/run/redis.sock"),
        ({"hosts": ["s3cret", "redis://cache:s3cret"]}, "an address that is no URL"),
        ({}, "localhost:6379"),
        (None, "localhost:6379"),
    ],
)
def test_a_layer_is_named_with_its_addresses_and_without_secrets(config: Any, expected: str):
    with override_settings(CHANNEL_LAYERS={"default": {"BACKEND": REDIS, "CONFIG": config}}):
        assert describe_layer() == f"RedisPubSubChannelLayer at {expected}"


def test_another_layer_is_named_by_its_class():
    layer = {"BACKEND": "shop.layers.OwnLayer", "CONFIG": {"url": "own://:s3cret@host"}}
    with override_settings(CHANNEL_LAYERS={"default": layer}):
        assert describe_layer() == "OwnLayer"
