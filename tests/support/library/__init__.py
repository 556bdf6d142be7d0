"""An app whose models have what the shop's have not: other keys, conditions, versions, removed rows."""
