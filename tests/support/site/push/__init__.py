"""A site whose processes share a database, and a Redis if `TEST_REDIS_URL` names one."""
