"""A site whose tools ask, tell, hold and change, on the database, layer and store of its environment."""
