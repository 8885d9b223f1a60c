"""What several organisations make together."""
