"""Digit-Five: MNIST, MNIST-M, SVHN, Synthetic Digits and USPS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.digits.benchmark import DigitBenchmark
from galafed.digits.domains import DIGIT_FIVE


@benchmarks.register("digit-five")
class DigitFive(DigitBenchmark):
    """Five domains of 25000 train and 9000 test images each, USPS with the 7438 and 1860 it has."""

    title: ClassVar[str] = "Digit-Five: MNIST, MNIST-M, SVHN, SYN and USPS (32x32)"
    domains = DIGIT_FIVE
    defaults: Mapping[str, Any] = {"rounds": 100, "training.lr": 0.04, "training.batch_size": 128, "gala.tau": 0.2}
