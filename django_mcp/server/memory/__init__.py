"""The plain implementation of each port: one process, no framework."""
