"""The garbage collector, kept from looking at what is not garbage, and given back as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from galafed.runs.garbage import spared


@pytest.fixture
def nothing_put_aside() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.freeze()


def test_what_is_alive_is_put_aside_and_put_back(nothing_put_aside: None) -> None:
    with spared():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_what_was_put_aside_around_it_stays_there(nothing_put_aside: None) -> None:
    with spared():
        before = gc.get_freeze_count()
        with spared():
            pass
        assert gc.get_freeze_count() == before
