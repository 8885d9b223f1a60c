"""Other ways to learn from the same people, each with the privacy that is proved for it."""
