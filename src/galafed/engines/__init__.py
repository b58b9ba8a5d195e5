"""Engines: where client work is executed. One file each."""
