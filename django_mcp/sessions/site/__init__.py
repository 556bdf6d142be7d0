"""Sessions in the site's database, with their data, pending questions and recorded streams."""
