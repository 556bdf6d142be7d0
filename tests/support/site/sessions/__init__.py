"""A site with tools that ask, notify and block, on the backends of its environment."""
