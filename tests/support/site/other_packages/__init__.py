"""A site of packages that others publish, with their models, admins and APIs as tools."""
