"""`fit` for many clients at once: the same batches, masks and steps as `galafed.loops.fit` takes for each alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from galafed.batches import WorkError
from galafed.loops import NOT_FINITE, Bench, Fitted
from galafed.runs.seeding import array_generator, generator, seeds_for
from galafed.stacking.lane import Draws, Lane, Place, mixes
from galafed.stacking.plan import arrange
from galafed.stacking.portions import Portion, portions
from galafed.stacking.resident import Resident
from galafed.stacking.stack import Stack
from galafed.stacking.twins import separate
from galafed.work import Fit, Rows, States

WORTH_TELLING = 1.0
"""Seconds of compiling that the user should know of."""
TEAMS = 4
"""So many sets of stacks are kept for the next phase; beyond, the oldest is let go."""
ALIKE = 4
"""So many lanes that differ in their losses alone are kept: a loss that is another in each round never returns."""


@dataclass(frozen=True)
class Member:
    """A client of a fit: its name, what it starts from, its random stream, and what it knows of single images."""

    name: str
    states: States
    momentum: States
    stream: tuple[object, ...]
    rows: Rows = field(default_factory=dict)


class Team:
    """The stacks of a number of clients, and the lanes that were made for them."""

    def __init__(self, bench: Bench, modules: Sequence[str], count: int) -> None:
        self.stacks = {name: Stack(bench, name, count) for name in modules}
        self._lanes: dict[object, dict[object, Lane]] = {}
        """By everything but the losses, then by them, the newest last."""

    def begin(self, states: Sequence[States], momentum: Sequence[States]) -> None:
        """Take what the clients start from."""
        for name, stack in self.stacks.items():
            stack.load([state[name] for state in states])
            stack.start_momentum([kept.get(name) for kept in momentum])

    def lane(self, shape: object, losses: object, make: Callable[[bool], Lane]) -> Lane:
        """The lane of these losses, made if there is none, told whether there were others of its shape."""
        alike = self._lanes.setdefault(shape, {})
        if losses not in alike:
            if len(alike) == ALIKE:
                alike.pop(next(iter(alike))).close()
            alike[losses] = make(bool(alike))
        alike[losses] = alike.pop(losses)  # the newest is last
        return alike[losses]

    def close(self) -> None:
        """Let go of all lanes."""
        for alike in self._lanes.values():
            for lane in alike.values():
                lane.close()


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
        if separate(work) and len(members) > 1:
            return [answer for member in members for answer in self.fit(work, [member])]
        order = arrange([len(self._resident.data[member.name]) for member in members], work.batch_size)
        clients = [members[k] for k in order]
        team = self._team(work.modules, len(clients))
        team.begin([client.states for client in clients], [client.momentum for client in clients])
        rows: dict[str, dict[str, torch.Tensor]] = {}
        for client in clients:
            for stream, known in client.rows.items():
                rows.setdefault(stream, {}).update(self._resident.hold(client.name, stream, known))
        losses = torch.zeros(len(work.steps), len(clients), dtype=torch.float64, device=self._bench.device)
        counts = torch.zeros(len(clients), dtype=torch.int64)
        for portion in portions(work, self._resident, [(client.name, client.stream) for client in clients]):
            here = slice(portion.start, portion.stop)
            lane = self._lane(team, work, portion, rows, clients[here])
            lane.losses.zero_()
            prepared = lane.run(draw(work, portion, clients[here], lane.places), work.optimiser.lr)
            if prepared > WORTH_TELLING:
                many = f"{portion.stop - portion.start} client(s) with batches of {portion.longest}"
                self._notice(f"compiling for {many} took {prepared:.1f} s, which later rounds save")
            losses[:, here] += lane.losses
            counts[here] += portion.steps
        means = (losses.cpu() / counts.clamp(min=1)).T.tolist()
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

    def close(self) -> None:
        """Let go of all teams."""
        while self._teams:
            self._teams.popitem()[1].close()

    def _team(self, modules: tuple[str, ...], count: int) -> Team:
        key = (modules, count)
        if key not in self._teams:
            while len(self._teams) >= TEAMS:
                self._teams.pop(next(iter(self._teams))).close()
            self._teams[key] = Team(self._bench, modules, count)
        self._teams[key] = self._teams.pop(key)  # the newest is last
        return self._teams[key]

    def _lane(
        self,
        team: Team,
        work: Fit,
        portion: Portion,
        rows: Rows,
        clients: Sequence[Member],
    ) -> Lane:
        """The lane for a portion: one from an earlier phase if it computes the same, whatever its learning rate."""
        data = self._resident.data[clients[0].name]
        labelled = [s for s in portion.orders if work.labelled and (not s or data.stream(s).labels is not None)]
        if work.streams == ("",):  # as many steps as an epoch may have
            capacity = self._capacity // portion.longest + 1 if portion.steps > 1 else 1
        else:  # streams begin their next epoch without a pause
            longest = max(len(data.stream(stream)) for stream in work.streams)
            capacity = (longest // portion.longest + 1) * work.epochs
        steps = tuple((tuple(step.outputs.items()), step.update) for step in work.steps)
        losses = tuple((step.loss, step.remember) for step in work.steps)
        settings = (replace(work.optimiser, lr=0.0), tuple(work.modes.items()), tuple(work.rates.items()))
        held = tuple((stream, name, id(values)) for stream, known in rows.items() for name, values in known.items())
        batch = (tuple(labelled), mixes(work), held)
        return team.lane(
            (portion.start, portion.stop, portion.lengths, capacity, steps, settings, batch),
            losses,
            lambda brief: Lane(
                work, self._bench, self._resident, team.stacks, rows,
                start=portion.start, stop=portion.stop, lengths=dict(portion.lengths), labelled=labelled,
                capacity=capacity, brief=brief,
            ),
        )  # fmt: skip


def draw(work: Fit, portion: Portion, clients: Sequence[Member], places: Sequence[Place]) -> Draws:
    """The dropout keys of some places and the mixup shares of a portion, from the random streams of its clients."""

    def keys(module: str, stream: str) -> torch.Tensor:
        """[steps, parts of a step, n]."""
        parts = range(len(work.steps))
        own = (f"@{stream}",) if stream else ()
        numbers = [
            [(before + step, part, module, *own) for step in range(portion.steps) for part in parts]
            for before in portion.before
        ]
        seeds = [seeds_for(client.stream, mine) for client, mine in zip(clients, numbers, strict=True)]
        return torch.tensor(seeds).T.reshape(portion.steps, len(parts), len(clients))

    drawn = {place: keys(*place) for place in places}
    if not mixes(work):
        return Draws(portion.orders, drawn)
    streams = [
        [(*client.stream, before + step, "mixup") for client, before in zip(clients, portion.before, strict=True)]
        for step in range(portion.steps)
    ]
    shares = [[array_generator(*s).beta(work.mixup, work.mixup) for s in row] for row in streams]
    length = portion.orders[""].shape[2]
    mates = [[torch.randperm(length, generator=generator(*s)) for s in row] for row in streams]
    return Draws(
        portion.orders,
        drawn,
        torch.stack([torch.stack(row) for row in mates]),
        torch.tensor(shares, dtype=torch.float64),
    )
