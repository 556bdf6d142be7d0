"""Tasks on a Django site: stored in its database, run in the web workers or by a queue."""
