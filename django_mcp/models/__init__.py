"""The tables of a site's MCP servers, one module per subject."""
