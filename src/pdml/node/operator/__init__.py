"""What an operator reads and asks."""
