"""Transports: each reads a message, calls the server and writes the response."""
