"""The study's file: its keys, rules and mistakes."""
