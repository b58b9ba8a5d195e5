"""The embedded benchmark: real handwritten digits and typeset ones in four dresses each, nothing to download.

The handwritten digits and the photographs come with scikit-learn, the fonts with matplotlib.
No base image is in two domains, nor in both the train and the test images of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from galafed import transforms
from galafed.benchmarks.base import Benchmark, Domain, Split, benchmarks
from galafed.benchmarks.store import ArrayStore, CachedArrays, cache_folder, recipe
from galafed.errors import ConfigError, DataError
from galafed.lazy import numpy
from galafed.registry import unknown
from galafed.runs.seeding import array_generator
from galafed.transforms.background import over_photographs
from galafed.transforms.scaling import shrink_on_black
from galafed.transforms.stacking import shift_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

CACHE = "mini"

IMAGE_SIZE = 16
SMALL_SIZE = 10
CHANNEL_SHIFT = 2
CLASSES = 10
PER_CLASS = {"train": 105, "test": 35}
DRESSES = ("plain", "photo", "small", "shift")
TEST_SHARE = 0.25
"""Of the handwritten bases of a domain, and of the width of each photograph."""

FINE = 3 * IMAGE_SIZE
"""Digits are distorted at three times their size, then averaged down, which keeps their edges smooth."""
INK_SIZE = 39
"""Height of an upright digit in its fine frame, before distortion."""
MASK_THRESHOLD = 120
"""Lower closes the loops of handwritten digits, higher breaks their strokes."""

FIRST_TYPESET_BASE = 10_000
"""Base numbers below are handwritten: the position of the image in scikit-learn's digits."""

FONTS = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique",
    "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique",
    "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic",
    "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta",
    "cmb10", "cmr10", "cmss10", "cmti10", "cmtt10",
)  # fmt: skip
"""Matplotlib's fonts with ordinary digits; named, so that a new font does not change the benchmark."""


@benchmarks.register("mini")
class Mini(Benchmark):
    """Eight domains of 16x16 colour digits; built in seconds at first use, then read from the cache."""

    title: ClassVar[str] = "Handwritten and typeset digits in four dresses (embedded, 16x16)"
    family = "mini"
    domains = (
        "hand", "hand-photo", "hand-small", "hand-shift", "type", "type-photo", "type-small", "type-shift",
    )  # fmt: skip
    classes = tuple("0123456789")
    image_size = IMAGE_SIZE
    default_target = "hand-photo"
    network = "small_cnn"
    # One thread: the network is too small for a second one to pay, and runs side by side do not disturb each other.
    defaults: Mapping[str, Any] = {"rounds": 30, "training.batch_size": 64, "training.lr": 0.05, "threads": 1}

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self._store = ArrayStore(cache_folder() / CACHE)
        made_by = recipe(__file__, transforms.__path__[0])
        self._arrays = CachedArrays(self._store, build, {"benchmark": "mini", "recipe": made_by})

    def store(self, domain: str = "") -> ArrayStore:
        """One store for all domains."""
        return self._store

    def load(self, domain: str) -> Domain:
        """Train images [1050, 16, 16, 3] and test images [350, 16, 16, 3] of one domain."""
        self._check(domain)
        return Domain(name=domain, train=self._split(domain, "train"), test=self._split(domain, "test"))

    def bases(self, domain: str) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """The number of the base image behind every train image [1050] and every test image [350]."""
        self._check(domain)
        return self._arrays[f"{domain}.train.bases"], self._arrays[f"{domain}.test.bases"]

    def _check(self, domain: str) -> None:
        if domain not in self.domains:
            raise ConfigError(unknown("domain", domain, self.domains))

    def _split(self, domain: str, part: str) -> Split:
        name = f"{domain}.{part}"
        return Split(images=self._arrays[f"{name}.images"], labels=self._arrays[f"{name}.labels"])


def build() -> dict[str, NDArray[Any]]:
    """Images uint8 [n, 16, 16, 3], labels int64 [n] and bases int64 [n] of every domain and part."""
    backgrounds = dict(zip(PER_CLASS, photograph_parts(load_photographs()), strict=True))
    arrays: dict[str, NDArray[Any]] = {}
    for kind, parts in (("hand", handwritten()), ("type", typeset())):
        for dress, part, gray, labels, bases in parts:
            rng = array_generator("mini", kind, dress, part)
            order = rng.permutation(len(labels))
            name = f"{kind if dress == 'plain' else f'{kind}-{dress}'}.{part}"
            arrays[f"{name}.images"] = put_on(dress, gray[order], backgrounds[part], rng)
            arrays[f"{name}.labels"] = labels[order]
            arrays[f"{name}.bases"] = bases[order]
    return arrays


Part = tuple[str, str, "NDArray[numpy.uint8]", "NDArray[numpy.int64]", "NDArray[numpy.int64]"]
"""A dress, "train" or "test", grey digits [n, 16, 16], and the label and base of each."""


def handwritten() -> Iterator[Part]:
    """The real digits, dealt out class by class; a base gives several images, all in one part."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    fine = enlarge(pixels.reshape(-1, 8, 8))
    rng = array_generator("mini", "hand", "deal")
    bases: dict[tuple[str, str], list[NDArray[numpy.int64]]] = {}
    for number in range(CLASSES):
        shuffled = rng.permutation(numpy.flatnonzero(labels == number))
        for dress, own in zip(DRESSES, numpy.array_split(shuffled, len(DRESSES)), strict=True):
            tests = round(TEST_SHARE * len(own))
            for part, bunch in (("test", own[:tests]), ("train", own[tests:])):
                bases.setdefault((dress, part), []).append(numpy.resize(bunch, PER_CLASS[part]))
    for (dress, part), bunches in bases.items():
        chosen = numpy.concatenate(bunches).astype(numpy.int64)
        rng = array_generator("mini", "hand", dress, part, "distortion")
        gray = distort(fine[chosen], rng, degrees=10, stretch=0.08, shear=0.1)
        yield dress, part, gray, labels[chosen].astype(numpy.int64), chosen


def typeset() -> Iterator[Part]:
    """Typeset digits; each base is one draw of a font and a distortion, used once."""
    glyphs = numpy.stack([render(path) for path in font_files()])
    first = FIRST_TYPESET_BASE
    for dress in DRESSES:
        for part, per_class in PER_CLASS.items():
            rng = array_generator("mini", "type", dress, part, "distortion")
            labels = numpy.repeat(numpy.arange(CLASSES, dtype=numpy.int64), per_class)
            fonts = rng.integers(len(glyphs), size=len(labels))
            gray = distort(glyphs[fonts, labels], rng, degrees=15, stretch=0.15, shear=0.2)
            yield dress, part, gray, labels, first + numpy.arange(len(labels), dtype=numpy.int64)
            first += len(labels)


def put_on(
    dress: str,
    gray: NDArray[numpy.uint8],
    photographs: Sequence[NDArray[numpy.uint8]],
    rng: numpy.random.Generator,
) -> NDArray[numpy.uint8]:
    """Grey digits [n, 16, 16] in one of the dresses: [n, 16, 16, 3]."""
    if dress == "photo":
        return over_photographs(gray, photographs, rng, MASK_THRESHOLD)
    if dress == "shift":
        return shift_channels(gray, CHANNEL_SHIFT)
    if dress == "small":
        gray = shrink_on_black(gray, SMALL_SIZE, IMAGE_SIZE)
    return numpy.repeat(gray[..., None], 3, axis=3)


def load_photographs() -> list[NDArray[numpy.uint8]]:
    """Two photographs [427, 640, 3]: a palace in China and a flower."""
    from sklearn.datasets import load_sample_images

    return list(load_sample_images().images)


def photograph_parts(
    photographs: Sequence[NDArray[numpy.uint8]],
) -> tuple[list[NDArray[numpy.uint8]], list[NDArray[numpy.uint8]]]:
    """Each photograph [H, W, 3] cut in two, a left part for train images and a right one for test images."""
    cuts = [round((1 - TEST_SHARE) * photograph.shape[1]) for photograph in photographs]
    trains = [photograph[:, :cut] for photograph, cut in zip(photographs, cuts, strict=True)]
    tests = [photograph[:, cut:] for photograph, cut in zip(photographs, cuts, strict=True)]
    return trains, tests


def enlarge(pixels: NDArray[numpy.float64]) -> NDArray[numpy.uint8]:
    """Handwritten digits [n, 8, 8] in 0..16, smoothly enlarged and centred: [n, 48, 48]."""
    from PIL import Image

    frames = numpy.zeros((len(pixels), FINE, FINE), numpy.uint8)
    margin = (FINE - INK_SIZE) // 2
    inside = slice(margin, margin + INK_SIZE)
    for frame, image in zip(frames, numpy.rint(pixels * (255 / 16)).astype(numpy.uint8), strict=True):
        large = Image.fromarray(image).resize((INK_SIZE, INK_SIZE), Image.Resampling.BICUBIC)
        frame[inside, inside] = numpy.asarray(large)
    return frames


def font_files() -> list[Path]:
    """The files of the fonts, in the order of their names above."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    files = [folder / f"{font}.ttf" for font in FONTS]
    for file in files:
        if not file.is_file():
            raise DataError(f"font {file} is missing; reinstall matplotlib, which brings it.")
    return files


def render(font_file: Path) -> NDArray[numpy.uint8]:
    """The digits 0 to 9 of a font, each scaled to the same height and centred: [10, 48, 48]."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(str(font_file), 2 * FINE, layout_engine=ImageFont.Layout.BASIC)
    frames = []
    for digit in Mini.classes:
        drawing = Image.new("L", (4 * FINE, 4 * FINE))
        ImageDraw.Draw(drawing).text((FINE, FINE), digit, fill=255, font=font)
        ink = drawing.crop(drawing.getbbox())
        width = min(round(ink.width * INK_SIZE / ink.height), INK_SIZE)
        frame = Image.new("L", (FINE, FINE))
        frame.paste(ink.resize((width, INK_SIZE)), ((FINE - width) // 2, (FINE - INK_SIZE) // 2))
        frames.append(numpy.asarray(frame))
    return numpy.stack(frames)


def distort(
    fine: NDArray[numpy.uint8], rng: numpy.random.Generator, *, degrees: float, stretch: float, shear: float
) -> NDArray[numpy.uint8]:
    """Digits [n, 48, 48], each turned, stretched, sheared and moved a little at random, as [n, 16, 16]."""
    from PIL import Image

    count, centre, scale = len(fine), FINE / 2, FINE // IMAGE_SIZE
    angle = numpy.radians(rng.uniform(-degrees, degrees, count))
    across = numpy.exp(rng.uniform(-stretch, stretch, count))
    down = numpy.exp(rng.uniform(-stretch, stretch, count))
    slant = rng.uniform(-shear, shear, count)
    moves = rng.uniform(-scale, scale, (count, 2))  # one pixel at most
    # Rows of the map from a place in the result to its place in the original, both measured from the centre.
    rows = numpy.empty((count, 2, 2))
    rows[:, 0, 0] = numpy.cos(angle) / across
    rows[:, 0, 1] = (numpy.sin(angle) + slant) / across
    rows[:, 1, 0] = -numpy.sin(angle) / down
    rows[:, 1, 1] = numpy.cos(angle) / down
    offsets = centre - numpy.einsum("nij,nj->ni", rows, centre + moves)
    moved = numpy.empty_like(fine)
    for number, (image, ((a, b), (d, e)), (c, f)) in enumerate(zip(fine, rows, offsets, strict=True)):
        turned = Image.fromarray(image).transform(
            (FINE, FINE), Image.Transform.AFFINE, (a, b, c, d, e, f), Image.Resampling.BILINEAR
        )
        moved[number] = numpy.asarray(turned)
    blocks = moved.reshape(count, IMAGE_SIZE, scale, IMAGE_SIZE, scale)
    result: NDArray[numpy.uint8] = numpy.rint(blocks.mean(axis=(2, 4))).astype(numpy.uint8)
    return result
