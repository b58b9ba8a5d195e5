"""The garbage collector, kept from looking at what is not garbage, and given back as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from galafed.runs.garbage import PYTHONS_OWN, put_off, spared


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


def test_what_python_itself_put_aside_counts_for_nothing(
    nothing_put_aside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = gc.get_freeze_count
    monkeypatch.setattr(gc, "get_freeze_count", lambda: frozen() or 375)  # as a Python 3.12 starts
    with spared():
        assert frozen() > PYTHONS_OWN
    assert frozen() == 0


def test_collection_is_put_off_and_goes_on_as_before() -> None:
    with put_off():
        assert not gc.isenabled()
        with put_off():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
