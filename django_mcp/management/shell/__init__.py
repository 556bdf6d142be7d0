"""The common parts of the commands: user, questions and output."""
