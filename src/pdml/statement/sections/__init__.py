"""The sections of the privacy statement and DPIA."""
