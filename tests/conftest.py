"""Settings for every test, made before torch is imported."""

import gc
import os
import signal
from collections.abc import Iterator

# Tests run side by side on few cores; threads that wait busily would slow each other down many times over.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A shell that runs the tests in the background has it ignored, and so would have every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis
import pytest
import torch

# How long an example takes tells of the machine, and of what else it does.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

if not torch.cuda.is_available():  # kernels are then checked by Triton's interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Work this small is done before a second thread has woken up; and runs in a test leave threads as they like."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="module")
def libraries_put_aside() -> None:
    """Every run begins by looking for garbage, which in a process with all tests in it takes longer than some runs."""
    gc.collect()
    gc.freeze()
