"""A user's own images: listing them from folders or a CSV, measuring them, and saying in plain words what is there."""
