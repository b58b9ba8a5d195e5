"""Readers: one file a format; each turns published files into `Raw` images and labels, or says what is wrong with them."""
