"""What the server runs."""

from galafed.flower.server import app

__all__ = ["app"]
