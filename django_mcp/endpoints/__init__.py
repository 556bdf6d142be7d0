"""The endpoints of a site: their URLs, metadata and health."""
