"""Folders with keys: they go with their process, and those of a killed one with the next that is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from galafed.errors import ConfigError
from galafed.sites.temporary import TemporaryFolder, clear_stale, hold

HOLD = """
import sys, time
from galafed.sites.temporary import TemporaryFolder
mine = TemporaryFolder(sys.argv[1])
print(mine.path, flush=True)
time.sleep(60)
"""


def test_the_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    other = tmp_path / "galafed-test-other"  # without a lock: nobody knows whose it is
    other.mkdir()
    mine = TemporaryFolder("galafed-test-")
    with subprocess.Popen([sys.executable, "-c", HOLD, "galafed-test-"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        assert theirs.parent == tmp_path
        assert theirs.stat().st_mode & 0o777 == 0o700
        clear_stale("galafed-test-")
        assert theirs.exists()
        process.kill()
    again = TemporaryFolder("galafed-test-")
    assert not theirs.exists()
    assert mine.path.exists()
    for folder in (mine, again):
        folder.close()
    assert list(tmp_path.iterdir()) == [other]


def test_two_runs_of_one_configuration_do_not_share_a_folder(tmp_path: Path) -> None:
    with hold(tmp_path / "state"), pytest.raises(ConfigError, match="of this very configuration"):
        hold(tmp_path / "state")
    hold(tmp_path / "state").close()
