"""Models by rounds of ADMM."""
