"""What happens to a report."""
