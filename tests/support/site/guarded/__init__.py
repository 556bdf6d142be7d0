"""A site whose entries depend on the principal, without a database."""
