"""What a finished run is good for: loading its classifier, predicting, exporting."""
