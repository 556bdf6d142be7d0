"""Skills on a site: those in the folders of its apps, and those that functions generate."""
