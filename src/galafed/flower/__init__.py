"""Flower underneath: what runs beside `engines/flower.py` in Flower's own processes."""

from pathlib import Path

BUNDLE = Path(__file__).parent / "bundle"
"""The Flower app that `flwr run` takes: two files that import this package where it is installed."""
