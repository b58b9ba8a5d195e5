"""Algorithms: one file each, a server program that asks clients to do things."""
