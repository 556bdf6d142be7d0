"""Pages of the site that a client sends its user to, for what must not pass through the client."""
