"""From answers to rows."""
