"""A site where what is there depends on who asks; nobody and nothing of it is in a database."""
