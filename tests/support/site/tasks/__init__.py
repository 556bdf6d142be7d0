"""A site whose tasks run in workers of a queue: it shares its database, and a Redis, with them."""
