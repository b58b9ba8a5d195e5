"""Grey images whose three colour channels are shifted apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from galafed.lazy import numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray


def shift_channels(gray: NDArray[numpy.uint8], shift: int) -> NDArray[numpy.uint8]:
    """Grey images [n, h, w] as [n, h, w, 3]: red moved left, blue right and green down by `shift` pixels."""
    if shift < 0:
        raise ValueError(f"shift {shift} is negative")
    result = numpy.zeros((*gray.shape, 3), numpy.uint8)
    # Slicing from the kept side leaves zeros behind, and nothing at all when the shift exceeds the image.
    height, width = max(gray.shape[1] - shift, 0), max(gray.shape[2] - shift, 0)
    result[:, :, :width, 0] = gray[:, :, shift:]
    result[:, shift:, :, 1] = gray[:, :height]
    result[:, :, shift:, 2] = gray[:, :, :width]
    return result
