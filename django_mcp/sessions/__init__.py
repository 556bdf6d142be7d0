"""Sessions in the site's database: themselves, their data, their questions and recorded streams."""
