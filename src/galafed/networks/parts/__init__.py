"""Parts that some methods need besides an extractor and a predictor. One file for each kind."""
