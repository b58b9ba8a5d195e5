"""What a server lets go of is the system's again, or its memory would grow from round to round."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from galafed.allocation import give_back_at_once

if sys.argv[1] == "at once":
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
