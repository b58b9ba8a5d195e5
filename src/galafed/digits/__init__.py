"""The digit domains that Digit-Five and Digit-18 share: raw files, subsets, stand-ins and derived domains."""
