"""The regenerated SYN, the paper of ARDIS II, and the masks of strokes do what they say."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from digit_files import glyph_masks
from galafed.digits import lettering, synthetic
from galafed.digits.lettering import draw_lines, glyphs_of
from galafed.digits.paper_noise import on_paper
from galafed.digits.recipes import RECIPES, Recipe, ordinary_fonts
from galafed.digits.synthetic import generate
from galafed.errors import DataError
from galafed.transforms.colours import to_colour, to_gray
from galafed.transforms.strokes import stroke_mask

MASKS = glyph_masks(2).reshape(2, 10, 40, 40)
PHOTOGRAPHS = [np.random.default_rng(0).integers(0, 256, (40, 50, 3)).astype(np.uint8)]
WILD, LEGIBLE = RECIPES["wild"], RECIPES["legible"]
LYING = np.stack([MASKS[0], MASKS[0].transpose(0, 2, 1), MASKS[1]])
"""Three fonts, of which the middle one has digits that lie on their sides."""


def test_the_labelled_digit_is_in_the_middle() -> None:
    labels = np.arange(10).repeat(20)
    line = draw_lines(glyphs_of(MASKS), labels, WILD, np.random.default_rng(0))
    assert line.stroke.shape == (200, 32, 32)
    middle = line.stroke[:, 14:18, 14:18].mean(axis=(1, 2))
    assert middle[labels % 2 == 1].min() > 0.99  # full boxes
    assert middle[labels % 2 == 0].mean() < 0.15  # hollow ones


@pytest.mark.parametrize("recipe", [WILD, LEGIBLE], ids=["wild", "legible"])
def test_digits_have_the_heights_and_widths_of_the_recipe(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHIFT", "TURN", "SHEAR", "PERSPECTIVE", "WEIGHT", "NEIGHBOUR"):
        monkeypatch.setattr(lettering, name, 0.0)
    line = draw_lines(glyphs_of(MASKS), np.ones(200, np.int64), recipe, np.random.default_rng(0))
    tall = (line.stroke > 0.5).any(axis=2).sum(axis=1)
    assert np.abs(tall - line.height).max() <= 1.5
    assert (line.height.min(), line.height.max()) == pytest.approx(recipe.height, abs=0.2)
    # The box is 24 wide and 36 high, and its width is drawn as well.
    wide = (line.stroke > 0.5).any(axis=1).sum(axis=1) / line.height * 36 / 24
    assert (wide.min(), wide.max()) == pytest.approx(recipe.width, abs=0.08)


def test_neighbours_come_as_often_as_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHIFT", "TURN", "SHEAR", "PERSPECTIVE"):
        monkeypatch.setattr(lettering, name, 0.0)
    same = dataclasses.replace(WILD, height=(14.0, 14.0))
    line = draw_lines(glyphs_of(MASKS), np.zeros(1000, np.int64), same, np.random.default_rng(0))
    right = (line.across > line.half_width[:, None, None]) & (line.stroke > 0.5)
    assert abs(right.any(axis=(1, 2)).mean() - lettering.NEIGHBOUR) < 0.05


def test_images_depend_on_the_stream_and_not_on_their_number() -> None:
    images, labels = generate(MASKS, PHOTOGRAPHS, 520, ("a",))
    assert images.shape == (520, 32, 32, 3)
    assert images.dtype == np.uint8
    assert labels.dtype == np.int64
    fewer, first = generate(MASKS, PHOTOGRAPHS, 510, ("a",))
    assert np.array_equal(fewer, images[:510])
    assert np.array_equal(first, labels[:510])
    other, _ = generate(MASKS, PHOTOGRAPHS, 10, ("b",))
    assert not np.array_equal(other, images[:10])
    assert np.bincount(labels, minlength=10).min() > 25


def test_scenes_have_the_contrast_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHROMA", "VIVID", "CAST", "PLATE", "SHADOW", "OUTLINE", "TEXTURE", "LIGHT", "NOISE"):
        monkeypatch.setattr(synthetic, name, 0.0)
    sharp = dataclasses.replace(WILD, blur=(0.01, 0.01), motion_blur=0.0)
    images, labels = generate(MASKS, PHOTOGRAPHS, 500, ("contrast",), recipe=sharp)
    gray = to_gray(images).astype(int)
    assert np.array_equal(images[..., 0], images[..., 2])
    full = gray[labels % 2 == 1]
    stroke = full[:, 14:18, 14:18].mean(axis=(1, 2))
    contrast = np.abs(full - stroke[:, None, None]).max(axis=(1, 2))
    assert np.quantile(contrast, 0.02) > 25
    assert 60 < np.median(contrast) < 110  # the middle of log 30 .. log 190 is 75, and coarser copies overshoot none
    assert (stroke > full.mean(axis=(1, 2))).mean() == pytest.approx(0.5, abs=0.12)


def test_ordinary_fonts_are_those_that_are_enough_like_the_mean_one() -> None:
    masks = np.random.default_rng(0).integers(0, 256, (6, 10, 5, 7)).astype(np.uint8)
    masks[:, :, :3, :3] = 200  # in common to all
    flat = masks.reshape(6, 10, 35)
    like = [np.mean([np.corrcoef(f[d], flat[:, d].mean(axis=0))[0, 1] for d in range(10)]) for f in flat]
    for rank, least in enumerate(sorted(like)):
        assert np.array_equal(ordinary_fonts(masks, least - 1e-9), masks[np.array(like) >= least])
        if rank < 5:
            assert len(ordinary_fonts(masks, least + 1e-9)) == 5 - rank
    with pytest.raises(DataError, match=r'no font.*syn = "wild"'):
        ordinary_fonts(masks, max(like) + 1e-9)


def test_an_odd_font_is_drawn_in_the_wild_alone() -> None:
    def drawn(masks: NDArray[np.uint8], recipe: Recipe) -> NDArray[np.uint8]:
        return generate(masks, PHOTOGRAPHS, 100, ("odd",), recipe=recipe)[0]

    assert np.array_equal(drawn(LYING, LEGIBLE), drawn(LYING[::2], LEGIBLE))
    assert not np.array_equal(drawn(LYING, WILD), drawn(LYING[::2], WILD))


@pytest.mark.parametrize(
    "bound", [{"height": (20, 20)}, {"width": (1, 1)}, {"contrast": (90, 90)}, {"blur": (2, 2)}, {"motion_blur": 2}]
)
def test_every_bound_of_a_recipe_counts(bound: dict[str, Any]) -> None:
    usual, other = (
        generate(MASKS, PHOTOGRAPHS, 100, ("a",), recipe=recipe)[0]
        for recipe in (LEGIBLE, dataclasses.replace(LEGIBLE, **bound))
    )
    assert not np.array_equal(usual, other)


FIRST_PIXELS = [
    [173, 109, 87, 73, 71, 65, 71, 115],
    [120, 118, 118, 116, 114, 112, 112, 179],
    [90, 122, 24, 25, 31, 36, 59, 118],
    [47, 48, 92, 115, 96, 96, 34, 15],
    [87, 139, 149, 154, 158, 163, 168, 171],
    [192, 224, 230, 202, 202, 208, 221, 255],
    [231, 16, 10, 40, 158, 3, 105, 0],
    [92, 99, 112, 114, 136, 120, 127, 135],
]
"""Of images that were drawn when there was one recipe."""


def test_wild_images_are_those_that_were_drawn_first() -> None:
    images, labels = generate(LYING, PHOTOGRAPHS, 20, ("first edition",), recipe=WILD)
    assert labels.tolist() == [5, 5, 5, 2, 5, 4, 0, 8, 8, 3, 5, 2, 4, 6, 1, 1, 3, 7, 2, 1]
    # Matrix products differ in their last bits from processor to processor, and so a pixel in a hundred thousand.
    assert np.abs(images[:8, 16, ::4, 1].astype(int) - FIRST_PIXELS).max() <= 1
    assert dataclasses.astuple(WILD) == (-1.0, (14.0, 26.0), (0.6, 1.2), (30.0, 190.0), (0.2, 1.7), 1.2)


def test_resampling_keeps_levels_and_sums() -> None:
    for size, result in ((32, 28), (28, 32)):
        matrix = synthetic._resampling(size, result)
        assert matrix.shape == (result, size)
        assert np.allclose(matrix.sum(axis=1), 1)


def test_ink_is_dark_on_grey_paper() -> None:
    strokes = np.zeros((50, 32, 32), np.uint8)
    strokes[:, 8:24, 14:18] = 255
    result = on_paper(strokes, np.random.default_rng(0))
    ink, paper = result[strokes > 0].reshape(50, -1), result[strokes == 0].reshape(50, -1)
    assert (ink.mean(axis=1) < paper.mean(axis=1) - 20).all()
    assert (paper.std(axis=1) > 2).all()
    assert np.array_equal(result, on_paper(strokes, np.random.default_rng(0)))


def scene(bright: bool, slope: float) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """A cross before a ground whose light rises to the right by `slope` levels a pixel."""
    mask = np.zeros((32, 32), np.bool_)
    mask[6:26, 13:19] = True
    mask[13:19, 6:26] = True
    ground = 100 + slope * (np.arange(32) - 15.5)[None].repeat(32, axis=0)
    image = np.clip(ground + np.where(mask, 60 if bright else -60, 0), 0, 255)
    return np.stack([image, 0.8 * image, 0.5 * image], axis=2).astype(np.uint8), mask


@pytest.mark.parametrize("bright", [True, False])
@pytest.mark.parametrize("slope", [0.0, 2.0, -3.0])
def test_strokes_are_found_in_any_light(bright: bool, slope: float) -> None:
    image, mask = scene(bright, slope)
    assert np.array_equal(stroke_mask(image[None])[0], mask)


def test_strokes_of_equal_luminance_are_found() -> None:
    _, mask = scene(True, 0)
    image = np.where(mask[..., None], (200, 60, 40), (40, 142, 40)).astype(np.uint8)
    assert np.ptp(to_gray(image[None])) <= 1
    assert np.array_equal(stroke_mask(image[None])[0], mask)


def test_scene_of_one_colour_has_no_stroke() -> None:
    flat = np.full((3, 32, 32, 3), 77, np.uint8)
    assert not stroke_mask(flat).any()
    assert stroke_mask(flat[:0]).shape == (0, 32, 32)


def test_each_scene_is_cut_for_itself() -> None:
    images = np.stack([scene(bool(number % 2), number % 5 - 2)[0] for number in range(501)])
    together = stroke_mask(images)
    assert np.array_equal(together[500], stroke_mask(images[500:])[0])


def test_gray_is_the_rounded_luminance() -> None:
    pixels = np.array([[[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [1, 1, 1]]]], np.uint8)
    assert to_gray(pixels).tolist() == [[[76, 150, 29, 255, 1]]]
    gray = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    assert np.array_equal(to_gray(to_colour(gray)), gray)
    assert to_gray(gray) is gray
    many = np.random.default_rng(0).integers(0, 256, (1500, 2, 2, 3)).astype(np.uint8)
    assert np.array_equal(to_gray(many)[1400:], to_gray(many[1400:]))
