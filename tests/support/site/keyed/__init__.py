"""A site with a server that requires an API key, for tests over real sockets."""
