"""The service as clients see it."""
