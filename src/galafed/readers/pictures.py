"""One picture of a common format, whatever its mode, as uint8 [h, w] or [h, w, 3].

- Grey stays grey; 16 bits become 8 by the full scale of the mode, 65535 -> 255.
- Transparency is laid on white: the colour hidden under transparent pixels is arbitrary, white is what viewers show.
- Palette, CMYK, YCbCr, LAB and HSV become RGB.
- A rotation noted by the camera is carried out. Of an animation the first frame is taken.
- More than `PIXELS_MAX` pixels are refused before anything is decoded.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.errors import DataError
from galafed.lazy import numpy
from galafed.readers.base import existing, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

PIXELS_MAX = 80_000_000
"""About 8900 x 8900; a file of a few kilobytes can claim far more and exhaust the memory."""

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""The formats tried; others that Pillow knows start programs (EPS) or are never used for data sets."""

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
"""File names that end so, in any case, are taken for pictures."""

DEEP_GREY = ("I", "I;16", "I;16B", "I;16L", "I;16N")


def read(path: Path) -> NDArray[np.uint8]:
    """The picture in a file."""
    return decode(existing(path), shown(path))


def decode(source: Path | bytes, name: str) -> NDArray[np.uint8]:
    """The picture in a file or in its bytes; `name` stands for it in messages."""
    from PIL import Image, UnidentifiedImageError

    def opened() -> Image.Image:
        return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)

    try:
        with opened() as picture:
            width, height = picture.size
            if width * height > PIXELS_MAX:
                raise DataError(_too_large(name, f"{width} x {height} pixels"))
            if picture.format != "PNG":
                return _levels(picture, name)
            picture.verify()  # decoding alone does not look at the checksums of the pixel data
        with opened() as picture:  # a verified picture cannot be read any more
            return _levels(picture, name)
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(_too_large(name, f"over {PIXELS_MAX} pixels")) from None
    except UnidentifiedImageError:
        raise DataError(
            f"{name}: is not a picture of a known format ({', '.join(FORMATS)}); replace, convert or remove it"
        ) from None
    except Exception as error:  # damaged files make Pillow raise nearly anything, from struct.error to SyntaxError
        raise DataError(f"{name}: is damaged ({error or type(error).__name__}); replace or remove it") from None


def _levels(picture: Image.Image, name: str) -> NDArray[np.uint8]:
    """The pixels of an open picture, upright, as uint8 [h, w] or [h, w, 3]."""
    from PIL import ImageOps

    picture.load()
    picture = ImageOps.exif_transpose(picture)
    if picture.mode in DEEP_GREY:
        return _eight_bits(numpy.asarray(picture), name)
    if picture.mode == "F":
        raise DataError(f"{name}: has floating-point pixels, whose scale is not known; save it with 8 or 16 bits")
    if picture.has_transparency_data:
        grey = picture.mode in ("L", "LA", "La", "1")
        picture = _on_white(picture).convert("L" if grey else "RGB")
    elif picture.mode in ("1", "L"):
        picture = picture.convert("L")
    else:
        picture = picture.convert("RGB")
    return numpy.array(picture, dtype=numpy.uint8)


def _on_white(picture: Image.Image) -> Image.Image:
    from PIL import Image

    if picture.mode in ("La", "RGBa"):  # premultiplied; Pillow converts these to their plain counterparts only
        picture = picture.convert({"La": "LA", "RGBa": "RGBA"}[picture.mode])
    picture = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)


def _eight_bits(levels: Any, name: str) -> NDArray[np.uint8]:
    """Grey levels 0 .. 65535 as 0 .. 255, the nearest each."""
    if levels.size and (levels.min() < 0 or levels.max() > 65535):
        raise DataError(f"{name}: has grey levels of more than 16 bits; save it with 8 or 16 bits")
    return ((levels.astype(numpy.uint32) + 128) // 257).astype(numpy.uint8)  # type: ignore[no-any-return]


def _too_large(name: str, size: str) -> str:
    return f"{name}: is too large ({size}; at most {PIXELS_MAX} pixels are read); make it smaller or remove it"
