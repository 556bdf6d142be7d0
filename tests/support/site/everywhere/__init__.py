"""A site that issues credentials of every kind, served by several processes."""
