"""The fixtures site of the official MCP conformance suite, and the runner that holds us to it."""
