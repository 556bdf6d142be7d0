"""The protocol extensions of this package, each whole in its folder; `extension_packages.py` lists them."""
