"""What the commands share: whom they act for, how they ask, and what they print."""
