"""Authentication and permissions: who makes a request, and what they may do."""
