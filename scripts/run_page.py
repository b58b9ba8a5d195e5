"""Executes the commands of a page, exactly as they stand in its console blocks, in one shell and a new folder.

python scripts/run_page.py docs/deploy.md [FOLDER]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def commands(page: str) -> str:
    """The lines of all console blocks, in order."""
    return "\n".join(re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL))


def main() -> int:
    """Run the page; what it started in the background is ended with it."""
    page = Path(sys.argv[1]).read_text(encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    head = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\nset -v\n"
    with tempfile.TemporaryDirectory(prefix="galafed-page-") as temporary:
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        script = head + commands(page)
        return subprocess.run(["bash", "-c", script], cwd=folder, env=os.environ | {"PATH": path}).returncode


if __name__ == "__main__":
    sys.exit(main())
