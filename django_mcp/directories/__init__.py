"""What directories of MCP servers demand: the lists in which people and clients find servers."""
