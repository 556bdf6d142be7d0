"""The server: from the bytes of a message to those of its response. Asynchronous, and free of any framework."""
