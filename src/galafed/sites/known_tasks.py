"""Importing this module fills `galafed.work.TASKS` with the tasks of every algorithm."""

from __future__ import annotations

from galafed.algorithms.base import algorithms

for _name in algorithms.names():
    algorithms.get(_name)
