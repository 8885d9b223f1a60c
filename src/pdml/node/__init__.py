"""One organisation's node: its keys, its journal, what it says to others, and whoever carries
it.
"""
