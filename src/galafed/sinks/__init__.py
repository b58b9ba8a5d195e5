"""Trackers that a run can be written to besides its own folder. One file each."""
