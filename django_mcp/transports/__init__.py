"""The drivers: bytes in, one call to the server, bytes out. No protocol rule stands here."""
