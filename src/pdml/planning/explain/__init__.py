"""Why a plan is as it is, and what would help."""
