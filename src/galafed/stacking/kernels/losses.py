"""Losses of many clients as one kernel each way; each is the twin of a loss in `galafed.tasks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from galafed.tasks import Disagreement, cross_entropy
from galafed.work import Batch, Step

MOST_CLASSES = 64
ROWS = 64

Losses = Callable[[Mapping[str, Tensor], Batch], Tensor]


@triton.jit
def _softmax(logits, at, inside):
    """Probabilities of rows of logits."""
    value = tl.load(logits + at, mask=inside, other=-float("inf")).to(tl.float32)
    value = tl.where(inside, value, -1e30)  # rows beyond the last must not become NaN
    value = tl.exp(value - tl.max(value, axis=1)[:, None])
    value = tl.where(inside, value, 0.0)
    total = tl.sum(value, axis=1)
    return value / tl.where(total > 0, total, 1.0)[:, None]


@triton.jit
def _cross_entropy(logits, labels, losses, rows, classes, BR: tl.constexpr, BC: tl.constexpr):
    """losses = mean over rows of log Σ exp(z) - z_y."""
    client = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BC)
    total = tl.zeros((BR,), dtype=tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        inside = (r < rows)[:, None] & (c < classes)[None, :]
        at = (client * rows + r)[:, None] * classes + c[None, :]
        z = tl.load(logits + at, mask=inside, other=-1e30).to(tl.float32)
        z -= tl.max(z, axis=1)[:, None]
        label = tl.load(labels + client * rows + r, mask=r < rows, other=0)
        right = tl.sum(tl.where(c[None, :] == label[:, None], z, 0.0), axis=1)
        spread = tl.where(r < rows, tl.sum(tl.where(inside, tl.exp(z), 0.0), axis=1), 1.0)
        total += tl.where(r < rows, tl.log(spread) - right, 0.0)
    tl.store(losses + client, tl.sum(total, axis=0) / rows)


@triton.jit
def _cross_entropy_gradient(logits, labels, factor, d_logits, rows, classes, BR: tl.constexpr, BC: tl.constexpr):
    """(softmax(z) - one at y) · factor / rows."""
    client = tl.program_id(1).to(tl.int64)
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.arange(0, BC)
    inside = (r < rows)[:, None] & (c < classes)[None, :]
    at = (client * rows + r)[:, None] * classes + c[None, :]
    p = _softmax(logits, at, inside)
    label = tl.load(labels + client * rows + r, mask=r < rows, other=0)
    g = (p - tl.where(c[None, :] == label[:, None], 1.0, 0.0)) * (tl.load(factor + client) / rows)
    tl.store(d_logits + at, g.to(d_logits.dtype.element_ty), mask=inside)


@triton.jit
def _distance(one, other, losses, rows, classes, scale, BR: tl.constexpr, BC: tl.constexpr):
    """losses = scale · mean over rows of ‖softmax(one) - softmax(other)‖₁."""
    client = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BC)
    total = tl.zeros((BR,), dtype=tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        inside = (r < rows)[:, None] & (c < classes)[None, :]
        at = (client * rows + r)[:, None] * classes + c[None, :]
        total += tl.sum(tl.abs(_softmax(one, at, inside) - _softmax(other, at, inside)), axis=1)
    tl.store(losses + client, scale * tl.sum(total, axis=0) / rows)


@triton.jit
def _distance_gradient(
    one, other, factor, d_one, d_other, rows, classes, scale, BR: tl.constexpr, BC: tl.constexpr
):  # fmt: skip
    """Through both softmaxes: p (g - Σ g p) with g = ± sign(p - q) · scale · factor / rows."""
    client = tl.program_id(1).to(tl.int64)
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.arange(0, BC)
    inside = (r < rows)[:, None] & (c < classes)[None, :]
    at = (client * rows + r)[:, None] * classes + c[None, :]
    p = _softmax(one, at, inside)
    q = _softmax(other, at, inside)
    sign = tl.where(p > q, 1.0, tl.where(p < q, -1.0, 0.0))
    g = sign * (scale * tl.load(factor + client) / rows)
    dp = p * (g - tl.sum(g * p, axis=1)[:, None])
    dq = q * (tl.sum(g * q, axis=1)[:, None] - g)
    tl.store(d_one + at, dp.to(d_one.dtype.element_ty), mask=inside)
    tl.store(d_other + at, dq.to(d_other.dtype.element_ty), mask=inside)


class CrossEntropy(torch.autograd.Function):
    """Losses [N] of logits [N, B, C] and labels [N, B]."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        n, rows, classes = logits.shape
        losses = torch.empty(n, device=logits.device)
        _cross_entropy[(n,)](logits, labels, losses, rows, classes, ROWS, _wide(classes))
        ctx.save_for_backward(logits, labels)
        return losses

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        logits, labels = ctx.saved_tensors
        n, rows, classes = logits.shape
        d_logits = torch.empty_like(logits)
        _cross_entropy_gradient[(triton.cdiv(rows, ROWS), n)](
            logits, labels, factor, d_logits, rows, classes, ROWS, _wide(classes)
        )
        return d_logits, None


class Distance(torch.autograd.Function):
    """scale · E ‖softmax(one) - softmax(other)‖₁ [N] of logits [N, B, C]."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, scale: float) -> Tensor:
        n, rows, classes = one.shape
        losses = torch.empty(n, device=one.device)
        _distance[(n,)](one, other, losses, rows, classes, scale, ROWS, _wide(classes))
        ctx.save_for_backward(one, other)
        ctx.scale = scale
        return losses

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        one, other = ctx.saved_tensors
        n, rows, classes = one.shape
        d_one, d_other = torch.empty_like(one), torch.empty_like(other)
        _distance_gradient[(triton.cdiv(rows, ROWS), n)](
            one, other, factor, d_one, d_other, rows, classes, ctx.scale, ROWS, _wide(classes)
        )
        return d_one, d_other, None


def twin_of(step: Step) -> Losses | None:
    """The twin of a step's loss, if there is one."""
    if step.loss is cross_entropy:
        return _entropies
    if isinstance(step.loss, Disagreement) and all(len(group) == 1 for group in step.loss.groups):
        heads = [head for ((head, _),) in step.loss.groups]
        return partial(_distances, heads[0], heads[1], step.loss.scale)
    return None


def _entropies(outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
    losses: Tensor = CrossEntropy.apply(outputs["logits"].contiguous(), batch.labels)
    return losses


def _distances(one: str, other: str, scale: float, outputs: Mapping[str, Tensor], batch: Batch) -> Tensor:
    losses: Tensor = Distance.apply(outputs[one].contiguous(), outputs[other].contiguous(), scale)
    return losses


def _wide(classes: int) -> int:
    return int(triton.next_power_of_2(classes))
