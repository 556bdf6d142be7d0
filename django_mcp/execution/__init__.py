"""How a handler runs on Django: its thread, its connections and transaction, its results."""
