"""The wire protocol: messages, headers, shapes and revisions."""
