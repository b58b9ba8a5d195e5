"""Studies: many runs and one table or picture. One file each."""
