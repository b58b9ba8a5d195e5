"""MATLAB files: SVHN's and SYN's `*_32x32.mat` (X [32, 32, 3, n], y), and `syn_number.mat` (train_data, ...)."""

from __future__ import annotations

from pathlib import Path

from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.readers import matlab_arrays
from galafed.readers.base import DIGITS, Raw, checked_labels, checked_pixels, same_count, shown


def read(path: Path, split: str = "train") -> Raw:
    """Images [n, h, w, 3] with labels 0 .. 9, the label 10 read as 0; `split` matters where the file holds both."""
    names = ("X", "y", f"{split}_data", f"{split}_label")
    content, all_names = matlab_arrays.read(path, names)
    if "X" in content and "y" in content:
        images, labels = content["X"], content["y"]
        if images.ndim == 3:  # MATLAB drops a last axis of length one
            images = images[..., None]
        images = numpy.moveaxis(images, -1, 0)
    elif names[2] in content and names[3] in content:
        images, labels = content[names[2]], content[names[3]]
    else:
        raise DataError(
            f"{shown(path)}: has neither X and y nor {names[2]} and {names[3]} as arrays of numbers "
            f"(it has {', '.join(all_names) or 'nothing'}); give the file as published"
        )
    if images.ndim != 4 or images.shape[3] != 3 or 0 in images.shape[1:]:
        raise DataError(f"{shown(path)}: images of shape {images.shape}, expected n colour images; fetch it again")
    labels = labels.reshape(-1)
    same_count(path, path, len(images), len(labels))
    labels = numpy.where(labels == len(DIGITS), 0, labels)
    return Raw(
        images=numpy.ascontiguousarray(checked_pixels(path, images, 0, 255)),
        labels=checked_labels(path, labels, len(DIGITS)),
        classes=DIGITS,
    )
