"""A site whose tools write to the SQLite file of the package's own tables, for as long as a test wants."""
