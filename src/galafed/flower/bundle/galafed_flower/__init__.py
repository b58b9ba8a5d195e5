"""Two files that Flower ships; all they do is import the installed package."""
