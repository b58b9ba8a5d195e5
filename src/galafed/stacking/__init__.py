"""Many clients at once on one device: their states stacked along a first axis, their steps taken together."""
