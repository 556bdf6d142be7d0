"""Pages of the site for users that a client sends there, for data it must not see."""
