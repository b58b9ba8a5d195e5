"""Rules of the source tree that protect people: no pickle, no shared random state, no surprises."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
RUFF = str(Path(sys.executable).with_name("ruff"))

PICKLERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
SEEDED = {"Generator", "default_rng", "SeedSequence", "BitGenerator", "PCG64", "Philox"}
DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}
IN_PLACE_DRAWS = {"random_", "uniform_", "normal_", "bernoulli_", "exponential_", "geometric_", "log_normal_"}


def dotted(node: ast.AST) -> str:
    """`torch.random.fork_rng` of an expression, or nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else f"?.{node.attr}"
    return ""


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(module, name) of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def forked(tree: ast.AST) -> set[ast.AST]:
    """Everything inside `with torch.random.fork_rng(...)`."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        and any(dotted(getattr(item.context_expr, "func", item)) == "torch.random.fork_rng" for item in node.items)
        for inner in ast.walk(node)
    }


def breaches(text: str, *, may_print: bool = False) -> list[str]:
    """What a source file does that it must not."""
    tree = ast.parse(text)
    found = []
    for module, name in imported(tree):
        if module.split(".")[0] in PICKLERS:
            found.append(f"imports {module}")
        if module.split(".")[0] == "random" or (module in ("numpy", "np", "torch") and name == "random"):
            found.append(f"imports random from {module}")
        if module == "torch" and name in {"load", "save", "manual_seed", *DRAWS}:
            found.append(f"imports torch.{name}")
        if module == "numpy.random" and name not in SEEDED:
            found.append(f"imports numpy.random.{name}")
    inside = forked(tree)
    for node in ast.walk(tree):
        name = dotted(node)
        if name in ("torch.load", "torch.save"):
            found.append(name)
        if re.match(r"(numpy|np)\.random\.\w+$", name) and name.split(".")[-1] not in SEEDED:
            found.append(name)
        if (
            re.match(r"torch(\.random|\.cuda)?\.(manual_seed|seed|manual_seed_all|seed_all)$", name)
            and node not in inside
        ):
            found.append(name)
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            draws = called.startswith("torch.") and called.split(".")[-1].removesuffix("_like") in DRAWS
            draws = draws or (called.split(".")[-1] in IN_PLACE_DRAWS)
            if draws and node not in inside and not any(keyword.arg == "generator" for keyword in node.keywords):
                found.append(f"{called} without a generator")
            if called == "print" and not may_print:
                found.append("print")
            pickles = [keyword.value for keyword in node.keywords if keyword.arg == "allow_pickle"]
            if any(not (isinstance(value, ast.Constant) and value.value is False) for value in pickles):
                found.append("allow_pickle")
    return found


def test_there_are_sources_to_look_at() -> None:
    assert len(SOURCES) > 40


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_file_keeps_the_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert breaches(text, may_print=path.name == "cli.py") == []
    assert ast.get_docstring(ast.parse(text)), "every module says what it is for"
    assert len(text.splitlines()) <= 350


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import pickle as p",
        "from pickle import loads",
        "from joblib import dump",
        "import torch\ntorch.load('x')",
        "import torch\nloader = torch.load",
        "import torch\ntorch.save({}, 'x')",
        "from torch import load",
        "import random",
        "from random import choice",
        "from numpy import random",
        "import numpy as np\nnp.random.seed(1)",
        "import numpy\nnumpy.random.rand(3)",
        "import torch\ntorch.manual_seed(1)",
        "import torch\ntorch.cuda.manual_seed_all(1)",
        "import torch\nwith torch.no_grad():\n    torch.manual_seed(1)",
        "import torch\ntorch.rand(3)",
        "import torch\ntorch.randn_like(x)",
        "import torch\ntorch.randperm(3, device='cpu')",
        "import torch\ntorch.empty(3).normal_()",
        "x.uniform_(0, 1)",
        "print(1)",
        "import numpy\nnumpy.load('x', allow_pickle=True)",
    ],
)
def test_the_rules_notice_a_breach(text: str) -> None:
    assert breaches(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.randperm(3, generator=g)",
        "import numpy\nnumpy.random.default_rng(3)",
        "import torch\nwith torch.random.fork_rng(devices=[]):\n    torch.manual_seed(1)\n    x.normal_()",
        "import numpy\nnumpy.load('x', allow_pickle=False)",
        "import safetensors.torch\nsafetensors.torch.load(b'')",
        "torch.Generator().manual_seed(1)",
    ],
)
def test_the_rules_let_the_right_way_pass(text: str) -> None:
    assert breaches(text) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("import pickle\n\npickle.loads(b'')\n", "TID251"),
        ("from pickle import loads\n\nloads(b'')\n", "TID251"),
        ("import cloudpickle\n\ncloudpickle.loads(b'')\n", "TID251"),
        ("import dill\n\ndill.loads(b'')\n", "TID251"),
        ("import joblib\n\njoblib.load('x')\n", "TID251"),
        ("import torch\n\ntorch.load('x')\n", "TID251"),
        ("from torch import load\n\nload('x')\n", "TID251"),
        ("import torch as t\n\nt.load('x')\n", "TID251"),
        ("import torch\n\ntorch.save({}, 'x')\n", "TID251"),
        ("import torch\n\ntorch.manual_seed(1)\n", "TID251"),
        ("import random\n\nrandom.random()\n", "TID251"),
        ("import numpy\n\nnumpy.random.seed(1)\n", "TID251"),
        ("import numpy\n\nnumpy.random.rand(1)\n", "NPY002"),
        ("print(1)\n", "T201"),
    ],
)
def test_the_linter_refuses_it(tmp_path: Path, text: str, rule: str) -> None:
    file = tmp_path / "newcomer.py"
    file.write_text('"""A newcomer."""\n\n' + text)
    command = [RUFF, "check", "--no-cache", "--config", str(ROOT / "pyproject.toml"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert rule in done.stdout


def test_the_linter_lets_a_good_file_pass(tmp_path: Path) -> None:
    file = tmp_path / "newcomer.py"
    file.write_text('"""A newcomer."""\n\nimport json\n\nVALUE = json.loads("1")\n')
    command = [RUFF, "check", "--no-cache", "--config", str(ROOT / "pyproject.toml"), str(file)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_exceptions_from_the_bans_are_few_and_say_why() -> None:
    excused = [
        line
        for path in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if "noqa" in line and "TID251" in line
    ]
    assert len(excused) <= 1, "the one place that seeds inside a fork"
    assert all(re.search(r"TID251 - \w+", line) for line in excused)


def tracked() -> list[Path]:
    """The text files of the repository; where it is not one, those beside the sources."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False
    ).stdout.split("\0")
    folders = [path for folder in ("src", "tests", "docs") for path in (ROOT / folder).rglob("*.*")]
    found = [ROOT / name for name in listed if name] or folders
    suffixes = {"", ".py", ".md", ".toml", ".txt", ".json", ".jsonl", ".cff", ".yml", ".yaml", ".cfg", ".svg", ".html"}
    return [path for path in found if path.is_file() and path.suffix in suffixes]


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    pattern = re.compile(rb"(?<![\w.])/(?:" + b"|".join((b"wo" + b"rk", b"ro" + b"ot", b"home/[a-z]")) + rb")/")
    assert pattern.search(b"see /wo" + b"rk/x")
    assert not pattern.search(b"src/wo" + b"rk/x")
    files = tracked()
    assert len(files) > 50
    named = [f"{p.relative_to(ROOT)}: {m.group()!r}" for p in files for m in pattern.finditer(p.read_bytes())]
    assert named == []
