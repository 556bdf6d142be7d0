"""Template tags of the package's pages."""
