"""Choosing settings without target labels."""
