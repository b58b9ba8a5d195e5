"""The terminal: in a pipe whose reader goes away, without colour, in 80 columns, in CI."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from in_process import toy_run

GALA = str(Path(sys.executable).with_name("gala"))
QUICK = ["run", "toy", "--rounds", "2", "--set", 'sources=["dark", "bright"]', "--set", "threads=1"]


def piped(tmp_path: Path, words: str) -> tuple[list[int], str, str]:
    """Exit codes of both sides of a pipe into `head -1`, output and errors."""
    script = f"{words} | head -1; echo codes ${{PIPESTATUS[@]}}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    *lines, codes = done.stdout.splitlines()
    return [int(code) for code in codes.split()[1:]], "\n".join(lines), done.stderr


def test_a_run_whose_reader_goes_away_goes_on_quietly(tmp_path: Path) -> None:
    arguments = " ".join(f"'{word}'" for word in QUICK)
    codes, out, err = piped(tmp_path, f"{GALA} {arguments} --out run")
    assert (codes, err) == ([0, 0], "")
    assert out.startswith("gala · toy")
    assert (tmp_path / "run" / "done").exists()


@pytest.mark.parametrize("verb", ["ls algorithms", "ls algorithms --json", "--help"])
def test_lists_whose_reader_goes_away_end_quietly(verb: str, tmp_path: Path) -> None:
    codes, _, err = piped(tmp_path, f"{GALA} {verb}")
    assert (codes, err) == ([0, 0], "")


def terminal(arguments: list[str], cwd: Path, columns: int = 80, **environment: str) -> tuple[int, str]:
    """Exit code and output of the command on a terminal."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    dropped = {"COLUMNS", "NO_COLOR", "CI", "FORCE_COLOR"}
    inherited = {key: value for key, value in os.environ.items() if key not in dropped}
    process = subprocess.Popen(
        [GALA, *arguments], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs,
        env=inherited | {"TERM": "xterm-256color"} | environment,
    )  # fmt: skip
    os.close(theirs)
    out = b""
    while True:
        try:
            part = os.read(mine, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        out += part
    os.close(mine)
    return process.wait(60), out.decode()


def plain(text: str) -> list[str]:
    """The lines without control sequences."""
    return re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", text).replace("\r", "\n").split("\n")


COLOURS = re.compile(r"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d)(?:;\d+)*m")


def test_a_run_fits_80_columns_and_is_coloured(tmp_path: Path) -> None:
    code, out = terminal([*QUICK, "--out", "run"], tmp_path)
    assert code == 0
    assert max(map(len, plain(out))) <= 80
    assert COLOURS.search(out)
    assert "oracle" in out


def test_without_colour_there_is_none(tmp_path: Path) -> None:
    coloured, plain_ = (terminal(["show", str(toy_run().folder)], tmp_path, **e) for e in ({}, {"NO_COLOR": "1"}))
    assert (coloured[0], plain_[0]) == (0, 0)
    assert COLOURS.search(coloured[1])
    assert not COLOURS.search(plain_[1])


@pytest.mark.parametrize("verb", ["show", "compare", "predict"])
def test_tables_fit_80_columns(verb: str, tmp_path: Path) -> None:
    run = tmp_path / "a-folder-with-a-long-name-as-studies-make-them-mini-type-photo-gala-s0-0123abcd"
    run.symlink_to(toy_run().folder)
    more = {"predict": [str(tmp_path / "a.png")], "compare": [str(toy_run("fact").folder)], "show": []}[verb]
    if verb == "predict":
        from PIL import Image

        Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    code, out = terminal([verb, str(run), *more], tmp_path)
    assert code == 0, out
    assert max(map(len, plain(out))) <= 80
    if verb == "compare":
        joined = "".join(plain(out))
        assert "100.0 %" in joined
        assert "…" not in joined
        assert "fact" in joined


def test_in_ci_there_is_a_line_a_round_and_no_control_sequence(tmp_path: Path) -> None:
    done = subprocess.run([GALA, *QUICK, "--out", "run"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout + done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("round ")]) == 2
