"""An API with the packages around Django REST framework, written in the ways that sites use them."""
