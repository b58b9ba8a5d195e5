"""How the cost of a round grows with the number of clients, and whether memory stays flat over many rounds.

    python benchmarks/growth.py                                 # on a GPU: about a minute
    python benchmarks/growth.py --clients 2 4 8 --rounds 3      # a trial

Clients are small: 256 random images each, the network of `mini`.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
from pathlib import Path
from statistics import median

import numpy
import torch

from galafed.reproduction.timing import TimedRounds, timed_run
from galafed.runs.garbage import spared

WARM_UP = 5
WINDOW = 10
"""Memory is told as the peak of so many rounds at a time."""


def memory(device: torch.device) -> float:
    """The most memory in use since the last call, in GB; of a process on a CPU, the most ever."""
    if device.type != "cuda":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    used = torch.cuda.max_memory_allocated(device) / 1e9
    torch.cuda.reset_peak_memory_stats(device)
    return used


def main() -> None:
    """Measure, fit a line, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="*", default=[10, 25, 50, 100, 150, 200])
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--network", default="small_cnn")
    parser.add_argument("--rounds", type=int, default=100, help="rounds over which memory is watched")
    parser.add_argument("--repeat", type=int, default=15, help="rounds of which the median is taken")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    precision = "bfloat16" if options.device.startswith("cuda") else "float32"
    gc.collect()
    values = {"images": options.images, "size": options.side, "network": options.network, "device": options.device}

    def small(clients: int) -> TimedRounds:
        return TimedRounds(timed_run("gala", clients, engine="stacked", precision=precision, **values))

    runs = {clients: small(clients) for clients in options.clients}
    times: dict[int, list[float]] = {clients: [] for clients in options.clients}
    with spared():  # as a run has it
        # In turns, so that a slow minute of the machine is not mistaken for the cost of one number of clients.
        for number in range(WARM_UP + options.repeat):
            for clients, run in runs.items():
                times[clients].append(run.round(number))
    seconds = [median(times[clients][WARM_UP:]) for clients in options.clients]
    for clients, value in zip(options.clients, seconds, strict=True):
        print(f"{clients:4d} clients: {value:.3f} s a round", flush=True)
    del runs
    slope, start = numpy.polyfit(options.clients, seconds, 1)
    left = numpy.array(seconds) - (start + slope * numpy.array(options.clients))
    fit = 1 - float((left**2).sum() / ((numpy.array(seconds) - numpy.mean(seconds)) ** 2).sum())
    run = small(options.clients[len(options.clients) // 2])
    memory(run.device)
    peaks = {}
    with spared():
        for number in range(options.rounds):
            run.round(number)
            if (number + 1) % WINDOW == 0:
                peaks[number + 1] = memory(run.device)
    result = {
        "device": torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU",
        "clients": options.clients,
        "seconds_per_round": [round(value, 4) for value in seconds],
        "milliseconds_per_client": round(1000 * slope, 3),
        "r_squared": round(fit, 5),
        "peak_gb_after_rounds": {str(number): round(value, 4) for number, value in peaks.items()},
    }
    print(json.dumps(result))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "growth.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
