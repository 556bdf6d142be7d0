"""Tasks: calls that outlive their request, in states that only move forward."""
