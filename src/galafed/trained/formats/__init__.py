"""Formats a classifier can be exported to. One file each."""
