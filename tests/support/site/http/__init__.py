"""A site with scripted servers behind the consumer and the view, for tests over real sockets."""
