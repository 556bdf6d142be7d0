"""A site with a server for whoever has a key, for tests over real sockets."""
