"""Running handlers: their context, arguments, progress and errors."""
