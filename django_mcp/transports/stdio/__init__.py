"""The stdio transport: one message a line, on the pipes of a process that the client started."""
