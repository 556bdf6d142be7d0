"""The server: from a decoded message to its answer. Asynchronous, and free of any framework."""
