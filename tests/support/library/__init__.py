"""An app with models unlike the shop's: other keys, conditions, versions, removed rows."""
