"""Runs: one round loop, checkpoints, metrics, seeds and label-free selection."""
