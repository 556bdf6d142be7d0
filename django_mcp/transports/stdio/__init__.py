"""The stdio transport: a message a line, on the pipes of a process that the client has started."""
