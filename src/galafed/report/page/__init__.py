"""Pages to look at in a browser: one file each, with everything inside, for a run, a study or several runs."""
