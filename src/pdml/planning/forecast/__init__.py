"""What accuracy a plan can be expected to have."""
