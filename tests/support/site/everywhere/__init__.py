"""A site with credentials of every kind that this site itself gives out, served by several processes."""
