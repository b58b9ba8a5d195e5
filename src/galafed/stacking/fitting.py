"""`fit` for many clients at once: the same batches, masks and steps as `galafed.loops.fit` takes for each alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from galafed.batches import WorkError, count_batches
from galafed.loops import NOT_FINITE, Bench, Fitted
from galafed.networks.layers import dropouts
from galafed.runs.seeding import array_generator, generator, seeds_for
from galafed.stacking.lane import Draws, Lane
from galafed.stacking.plan import Segment, arrange, segments
from galafed.stacking.resident import Resident
from galafed.stacking.stack import Stack
from galafed.stacking.twins import CannotStack, unstackable
from galafed.work import Fit, States

WORTH_TELLING = 1.0
"""Seconds of compiling that the user should know of."""
TEAMS = 4
"""So many sets of stacks are kept for the next phase; beyond, the oldest is let go."""


@dataclass(frozen=True)
class Member:
    """A client of a fit: its name, what it starts from, its random stream, and what it knows of single images."""

    name: str
    states: States
    momentum: States
    stream: tuple[object, ...]
    rows: Mapping[str, torch.Tensor] = field(default_factory=dict)


class Team:
    """The stacks of a number of clients, and the lanes that were made for them."""

    def __init__(self, bench: Bench, modules: Sequence[str], count: int) -> None:
        self.stacks = {name: Stack(bench, name, count) for name in modules}
        self.lanes: dict[object, Lane] = {}


class Workspace:
    """What fits leave for the next ones: stacks at fixed places, and lanes whose steps are recorded."""

    def __init__(self, bench: Bench, resident: Resident, notice: Callable[[str], None]) -> None:
        self._bench = bench
        self._notice = notice
        self._resident = resident
        self._teams: dict[tuple[tuple[str, ...], int], Team] = {}
        self._capacity = max(map(len, resident.data.values()))

    def fit(self, work: Fit, members: Sequence[Member]) -> list[Fitted | WorkError]:
        """Run a `Fit` for every member, all of which have what it needs; answers in their order."""
        if reason := unstackable(work):
            raise CannotStack(reason)
        sizes = [len(self._resident.data[member.name]) for member in members]
        order = arrange(sizes, work.batch_size)
        clients, sizes = [members[k] for k in order], [sizes[k] for k in order]
        team = self._team(work.modules, len(clients))
        for name, stack in team.stacks.items():
            stack.load([client.states[name] for client in clients])
            stack.start_momentum([client.momentum.get(name) for client in clients])
        rows: dict[str, torch.Tensor] = {}
        for client in clients:
            rows |= self._resident.hold(client.name, client.rows)
        losses = torch.zeros(len(work.steps), len(clients), dtype=torch.float64, device=self._bench.device)
        for epoch in range(work.epochs):
            for segment in segments(sizes, work.batch_size):
                lane = self._lane(team, work, segment, rows)
                lane.losses.zero_()
                prepared = lane.run(self._draws(work, team, clients, sizes, segment, epoch), work.optimiser.lr)
                if prepared > WORTH_TELLING:
                    many = f"{segment.stop - segment.start} client(s) with batches of {segment.length}"
                    self._notice(f"compiling for {many} took {prepared:.1f} s, which later rounds save")
                losses[:, segment.start : segment.stop] += lane.losses
        counts = torch.tensor([max(work.epochs * count_batches(size, work.batch_size), 1) for size in sizes])
        means = (losses.cpu() / counts).T.tolist()
        moved = tuple(dict.fromkeys(name for step in work.steps for name in step.update))
        states = {name: stack.states() for name, stack in team.stacks.items()}
        momenta = {name: team.stacks[name].momenta() for name in moved if work.optimiser.persistent}
        answers: list[Fitted | WorkError] = [WorkError(NOT_FINITE)] * len(clients)
        for k, place in enumerate(order):
            if all(map(math.isfinite, means[k])):
                mine = {name: copies[k] for name, copies in states.items()}
                momentum = {name: copies[k] for name, copies in momenta.items()}
                answers[place] = Fitted(mine, momentum, tuple(means[k]))
        return answers

    def _team(self, modules: tuple[str, ...], count: int) -> Team:
        key = (modules, count)
        if key not in self._teams:
            while len(self._teams) >= TEAMS:
                self._teams.pop(next(iter(self._teams)))
            self._teams[key] = Team(self._bench, modules, count)
        self._teams[key] = self._teams.pop(key)  # the newest is last
        return self._teams[key]

    def _lane(self, team: Team, work: Fit, segment: Segment, rows: Mapping[str, torch.Tensor]) -> Lane:
        """The lane for a segment: one from an earlier phase if it computes the same, whatever its learning rate."""
        capacity = max(self._capacity // segment.length, 1) if segment.steps > 1 else 1
        steps = tuple((tuple(step.outputs.items()), step.loss, step.update) for step in work.steps)
        settings = (replace(work.optimiser, lr=0.0), tuple(work.modes.items()), tuple(work.rates.items()))
        batch = (work.labelled, bool(work.mixup), tuple((name, id(values)) for name, values in rows.items()))
        key = (segment.start, segment.stop, segment.length, capacity, steps, settings, batch)
        if key not in team.lanes:
            team.lanes[key] = Lane(
                work, self._bench, self._resident, team.stacks, rows,
                start=segment.start, stop=segment.stop, length=segment.length, capacity=capacity,
            )  # fmt: skip
        return team.lanes[key]

    def _keys(self, work: Fit, client: Member, size: int, segment: Segment, epoch: int, name: str) -> torch.Tensor:
        """The dropout keys of one client and module: [batches, steps]."""
        first = epoch * count_batches(size, work.batch_size) + segment.first
        parts = range(len(work.steps))
        places = [(batch, step, name) for batch in range(first, first + segment.steps) for step in parts]
        return torch.tensor(seeds_for(client.stream, places)).view(segment.steps, len(parts))

    def _draws(
        self, work: Fit, team: Team, clients: Sequence[Member], sizes: Sequence[int], segment: Segment, epoch: int
    ) -> Draws:
        """The permutations, dropout keys and mixup shares of a segment, from the random streams of its clients."""
        here = range(segment.start, segment.stop)
        numbers = range(segment.first, segment.first + segment.steps)
        begin, end = segment.first * work.batch_size, segment.first * work.batch_size + segment.steps * segment.length
        orders = []
        for k in here:
            shuffle = generator(*clients[k].stream, "shuffle", epoch)
            order = torch.randperm(sizes[k], generator=shuffle)[begin:end] + self._resident.first[clients[k].name]
            orders.append(order.view(segment.steps, segment.length))

        def stream(k: int, number: int) -> tuple[object, ...]:
            return (*clients[k].stream, epoch * count_batches(sizes[k], work.batch_size) + number)

        random = [
            name for name, stack in team.stacks.items() if any(dropouts(stack.window(segment.start, segment.stop)))
        ]
        keys = {
            name: torch.stack([self._keys(work, clients[k], sizes[k], segment, epoch, name) for k in here], -1)
            for name in random
        }
        if not work.mixup:
            return Draws(torch.stack(orders, dim=1), keys, None, None)
        streams = [[(*stream(k, b), "mixup") for k in here] for b in numbers]
        shares = [[array_generator(*s).beta(work.mixup, work.mixup) for s in row] for row in streams]
        mates = [[torch.randperm(segment.length, generator=generator(*s)) for s in row] for row in streams]
        return Draws(
            torch.stack(orders, dim=1),
            keys,
            torch.stack([torch.stack(row) for row in mates]),
            torch.tensor(shares, dtype=torch.float64),
        )
