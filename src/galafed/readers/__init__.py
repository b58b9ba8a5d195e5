"""Readers: one file a format; each turns published files into `Raw` images, or says what is wrong with them."""
