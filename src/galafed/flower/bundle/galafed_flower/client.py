"""What a node runs."""

from galafed.flower.client import app

__all__ = ["app"]
