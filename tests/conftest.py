"""Settings for every test, made before torch is imported."""

import os

# Tests run side by side on few cores; threads that wait busily would slow each other down many times over.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
