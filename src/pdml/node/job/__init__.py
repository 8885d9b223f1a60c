"""One training or evaluation at one node."""
