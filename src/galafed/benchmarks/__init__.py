"""Benchmarks: named sets of domains with fixed train and test splits. One file a benchmark."""
