"""Federated unsupervised multi-source domain adaptation: GALA and the systems it is compared with.

import galafed
result = galafed.run("mini", target="hand-photo", algorithm="gala")
print(result.accuracy)
print(galafed.load(result.folder).predict("pictures").labels)
"""

__version__ = "0.1.0"

from galafed.api import load, run
from galafed.errors import GalafedError

__all__ = ["GalafedError", "__version__", "load", "run"]
