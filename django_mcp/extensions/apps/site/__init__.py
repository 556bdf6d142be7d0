"""Pages of tools on a site: templates, their tags, and forms."""
