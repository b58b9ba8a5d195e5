"""The transforms do to every pixel what their rules say, whatever the images."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from galafed.transforms.background import draw_crops, invert_under, over_photographs
from galafed.transforms.scaling import shrink_on_black
from galafed.transforms.stacking import shift_channels

GRAY = arrays(np.uint8, st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(1, 6)))


def numbered_photograph(first: int, height: int, width: int) -> NDArray[np.uint8]:
    """A photograph [height, width, 3] whose pixel tells its photograph, row and column."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([np.full_like(rows, first), rows, columns], axis=2).astype(np.uint8)


def test_photograph_is_inverted_under_the_digit_only() -> None:
    photograph = np.array([[[10, 20, 30], [40, 50, 60]]], np.uint8)
    digits = np.array([[[127, 128]]], np.uint8)
    result = over_photographs(digits, [photograph], np.random.default_rng(0))
    assert result.tolist() == [[[[10, 20, 30], [215, 205, 195]]]]


def test_threshold_decides_what_is_digit() -> None:
    photograph = np.zeros((1, 2, 3), np.uint8)
    digits = np.array([[[127, 128]]], np.uint8)
    result = over_photographs(digits, [photograph], np.random.default_rng(0), threshold=127)
    assert result.tolist() == [[[[255] * 3, [255] * 3]]]


@given(digits=GRAY, threshold=st.integers(1, 255), seed=st.integers(0, 2**32))
def test_every_image_is_a_crop_inverted_under_a_binary_mask(
    digits: NDArray[np.uint8], threshold: int, seed: int
) -> None:
    photographs = [numbered_photograph(3, 7, 9), numbered_photograph(5, 6, 6)]
    result = over_photographs(digits, photographs, np.random.default_rng(seed), threshold)
    assert result.shape == (*digits.shape, 3)
    assert result.dtype == np.uint8
    for digit, image in zip(digits, result, strict=True):
        crop = np.where(digit[..., None] >= threshold, 255 - image, image)
        number, top, left = (int(value) for value in crop[0, 0])
        photograph = photographs[(3, 5).index(number)]
        whole = photograph[top : top + digit.shape[0], left : left + digit.shape[1]]
        assert np.array_equal(crop, whole)


def test_crops_reach_every_place_of_every_photograph() -> None:
    photographs = [numbered_photograph(0, 5, 4), numbered_photograph(1, 3, 6)]
    crops = draw_crops(photographs, (2000, 3, 2), np.random.default_rng(0))
    corners = {tuple(int(value) for value in crop[0, 0]) for crop in crops}
    first = {(0, top, left) for top in range(3) for left in range(3)}
    second = {(1, 0, left) for left in range(5)}
    assert corners == first | second


def test_crops_follow_the_generator_and_nothing_else() -> None:
    photographs = [numbered_photograph(0, 40, 40)]
    first, again, other = (draw_crops(photographs, (20, 4, 4), np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_inverting_twice_gives_the_crop_back() -> None:
    rng = np.random.default_rng(0)
    crops = rng.integers(256, size=(4, 5, 6, 3), dtype=np.uint8)
    mask = rng.random((4, 5, 6)) < 0.5
    assert np.array_equal(invert_under(mask, invert_under(mask, crops)), crops)


def test_photograph_smaller_than_the_image_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(4, 9\) is smaller than the image \(5, 5\)"):
        draw_crops([numbered_photograph(0, 4, 9)], (1, 5, 5), np.random.default_rng(0))
    with pytest.raises(ValueError, match="no photograph"):
        draw_crops([], (1, 5, 5), np.random.default_rng(0))


def test_small_image_lies_in_the_middle_of_black() -> None:
    images = np.full((2, 4, 4, 3), 200, np.uint8)
    result = shrink_on_black(images, 2, 6)
    expected = np.zeros((2, 6, 6, 3), np.uint8)
    expected[:, 2:4, 2:4] = 200
    assert np.array_equal(result, expected)


def test_shrinking_averages_instead_of_dropping_pixels() -> None:
    stripes = np.tile(np.array([0, 255], np.uint8), (1, 8, 4))
    middle = shrink_on_black(stripes, 4, 4)[0, :, 1:3]
    assert middle.min() > 80
    assert middle.max() < 175


@given(images=GRAY, size=st.integers(1, 8), border=st.integers(0, 5), colour=st.booleans())
def test_shrunk_image_keeps_its_range_and_its_border_is_black(
    images: NDArray[np.uint8], size: int, border: int, colour: bool
) -> None:
    canvas = size + border
    source = np.repeat(images[..., None], 3, axis=3) if colour else images
    result = shrink_on_black(source, size, canvas)
    assert result.dtype == np.uint8
    assert result.shape == (len(images), canvas, canvas, *((3,) if colour else ()))
    start = border // 2
    inside = result[:, start : start + size, start : start + size]
    assert int(result.sum(dtype=np.int64)) == int(inside.sum(dtype=np.int64))
    for image, small in zip(images, inside, strict=True):
        assert image.min() <= small.min()
        assert small.max() <= image.max()


@pytest.mark.parametrize("size", [0, 7])
def test_size_that_does_not_fit_the_canvas_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"size {size} does not lie between 1 and the canvas, 6"):
        shrink_on_black(np.zeros((1, 4, 4), np.uint8), size, 6)


def test_channels_move_apart_and_leave_zeros_behind() -> None:
    gray = np.array([[[1, 2, 3], [4, 5, 6], [7, 8, 9]]], np.uint8)
    red, green, blue = np.moveaxis(shift_channels(gray, 1)[0], 2, 0)
    assert red.tolist() == [[2, 3, 0], [5, 6, 0], [8, 9, 0]]
    assert green.tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 6]]
    assert blue.tolist() == [[0, 1, 2], [0, 4, 5], [0, 7, 8]]


@given(gray=GRAY, shift=st.integers(0, 8))
def test_shifted_channel_holds_the_pixel_from_where_it_came(gray: NDArray[np.uint8], shift: int) -> None:
    result = shift_channels(gray, shift)
    assert result.shape == (*gray.shape, 3)
    assert result.dtype == np.uint8
    padded = np.pad(gray, ((0, 0), (shift, shift), (shift, shift)))
    height, width = gray.shape[1:]
    for channel, (x, y) in enumerate([(-shift, 0), (0, shift), (shift, 0)]):
        rows, columns = slice(shift - y, shift - y + height), slice(shift - x, shift - x + width)
        assert np.array_equal(result[..., channel], padded[:, rows, columns])


def test_negative_shift_is_refused() -> None:
    with pytest.raises(ValueError, match="shift -1 is negative"):
        shift_channels(np.zeros((1, 2, 2), np.uint8), -1)
