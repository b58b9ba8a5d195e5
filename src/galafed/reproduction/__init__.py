"""What the paper published, and what its tables and figures have in common."""
