"""Freed memory: a server's is the system's again, or it would grow from round to round; a step's is the next step's."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from galafed.allocation import give_back_at_once, keep_for_the_next_step

if sys.argv[1] == "at once":
    keep_for_the_next_step(workers=1)  # by an engine that was used before in the same process
    give_back_at_once()
once = bytes(30_000_000)
del once  # from now on glibc would keep blocks of this size
kept = []
for _ in range(40):
    large = bytearray(8_000_000)
    large[::4096] = bytes(len(large[::4096]))  # a page is there when it was written to
    kept.append((large, bytearray(200_000)))  # what is small lies between what is large
kept = [small for _, small in kept]
del large
print(int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_large_blocks_are_given_back_whatever_lies_between_them() -> None:
    def resident(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert resident("as ever") - resident("at once") > 100_000_000


STEPS = """
import resource, sys, threading
from galafed import allocation
from galafed.allocation import keep_for_the_next_step

how, workers, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if how != "as ever":
    allocation.PLENTY = 0 if how == "kept" else 2**60
    keep_for_the_next_step(workers)

def steps():
    before = 0
    for number in range(20):
        if number == 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        layers = [bytearray(size) for _ in range(8)]
        del layers
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

if workers == 1:
    steps()
else:
    thread = threading.Thread(target=steps)
    thread.start()
    thread.join()
"""


def faults(how: str, workers: int, size: int) -> int:
    """Page faults of ten steps with blocks of this size, after ten others."""
    command = [sys.executable, "-c", STEPS, how, str(workers), str(size)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
@pytest.mark.parametrize(
    ("workers", "size"),
    [
        (2, 2_000_000),  # in a thread, whose heap glibc would trim after every step
        (1, 50_000_000),  # more than the 32 MB from which on glibc maps every block by itself, whatever it has seen
    ],
)
def test_steps_find_the_pages_of_the_steps_before(workers: int, size: int) -> None:
    assert faults("kept", workers, size) < faults("as ever", workers, size) / 10


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_a_machine_with_little_memory_is_left_as_it_is() -> None:
    assert faults("little memory", 1, 50_000_000) > faults("as ever", 1, 50_000_000) / 2
