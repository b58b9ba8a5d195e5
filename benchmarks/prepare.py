"""Time and peak memory of preparing Digit-18 in an empty cache, and of loading it: python benchmarks/prepare.py"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time

from galafed.benchmarks.base import benchmarks

LIMITS = {"prepare_seconds": 360.0, "prepare_peak_mb": 4096.0, "load_seconds": 10.0}


def main(name: str = "digit-18") -> int:
    """Measure, print, and fail if a limit is passed."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["GALAFED_CACHE"] = cache
        benchmark = benchmarks.get(name)()
        started = time.perf_counter()
        since = {"": started}

        def show(domain: str, done: int, total: int) -> None:
            now = time.perf_counter()
            for previous, then in since.items() if done else ():
                sys.stdout.write(f"{previous:<12} {now - then:6.1f} s\n")
            since.clear()
            since[domain] = now

        benchmark.prepare(show)
        measured = {"prepare_seconds": time.perf_counter() - started}
        measured["prepare_peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        started = time.perf_counter()
        domains = [benchmark.load(domain) for domain in benchmark.domains]
        measured["load_seconds"] = time.perf_counter() - started
        started = time.perf_counter()
        size = sum(split.images.nbytes for domain in domains for split in (domain.train, domain.test))
        sum(int(split.images.sum()) for domain in domains for split in (domain.train, domain.test))
        measured["read_every_byte_seconds"] = time.perf_counter() - started
    for what, value in measured.items():
        limit = f"   (limit {LIMITS[what]:g})" if what in LIMITS else ""
        sys.stdout.write(f"{what:<24} {value:8.1f}{limit}\n")
    sys.stdout.write(f"{len(domains)} domains, {size / 1e9:.2f} GB of images\n")
    return int(any(measured[what] > limit for what, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
