"""A site whose tools and authenticator use the async ORM, served by a real server."""
