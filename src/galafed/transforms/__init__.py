"""Image transforms that make one domain from another: pure functions of an array and a generator."""
