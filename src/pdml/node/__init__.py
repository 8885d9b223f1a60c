"""One organisation's node: its keys, its journal, and what it says to others."""
