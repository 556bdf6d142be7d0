"""APIs with django-ninja-extra and django-ninja-jwt, written in the ways that sites use them."""
