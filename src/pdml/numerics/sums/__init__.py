"""Models from sufficient statistics."""
