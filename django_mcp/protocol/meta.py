"""The `_meta` keys that the protocol reserves (2026-07-28, basic "General fields")."""

from __future__ import annotations

PROGRESS_TOKEN = "progressToken"  # noqa: S105 - a key, and no secret either
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
