"""What leaves the system: the model, its evaluation and its exports."""
