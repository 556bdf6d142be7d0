"""The site that is fuzzed over sockets: everything is on, and all state is in a database."""
