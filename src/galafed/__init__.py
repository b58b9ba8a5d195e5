"""Federated unsupervised multi-source domain adaptation."""

__version__ = "0.1.0"
