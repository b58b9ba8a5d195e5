"""A fully connected layer with few outputs, such as the last one of a classifier: one kernel each way."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from galafed.stacking.layers import StackedLinear

MOST_OUTPUTS, MOST_INPUTS = 16, 128
"""Up to this size one program holds all weights of a client."""
ROWS = 64


@triton.jit
def _forward(x, weight, bias, y, rows, inputs, outputs, BR: tl.constexpr, BI: tl.constexpr, BO: tl.constexpr):
    """y = x wᵀ + bias for BR rows of a client; products in the precision of x, sums and y in float32."""
    client = tl.program_id(1).to(tl.int64)
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    i = tl.arange(0, BI)
    o = tl.arange(0, BO)
    a = tl.load(
        x + (client * rows + r)[:, None] * inputs + i[None, :],
        mask=(r < rows)[:, None] & (i < inputs)[None, :],
        other=0.0,
    )
    b = tl.load(
        weight + (client * outputs + o)[None, :] * inputs + i[:, None],
        mask=(o < outputs)[None, :] & (i < inputs)[:, None],
        other=0.0,
    )
    total = tl.dot(a, b.to(a.dtype)) + tl.load(bias + client * outputs + o, mask=o < outputs, other=0.0)[None, :]
    place = (client * rows + r)[:, None] * outputs + o[None, :]
    tl.store(y + place, total, mask=(r < rows)[:, None] & (o < outputs)[None, :])


@triton.jit
def _backward(
    x, dy, weight, dx, d_weight, d_bias, rows, inputs, outputs,
    INPUT: tl.constexpr, WEIGHT: tl.constexpr, BR: tl.constexpr, BI: tl.constexpr, BO: tl.constexpr,
):  # fmt: skip
    """dx = dy w, d_weight = dyᵀ x and d_bias = Σ dy of one client."""
    client = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BI)
    o = tl.arange(0, BO)
    at = (client * outputs + o)[:, None] * inputs + i[None, :]
    real = (o < outputs)[:, None] & (i < inputs)[None, :]
    w = tl.load(weight + at, mask=real, other=0.0).to(x.dtype.element_ty)
    gradient = tl.zeros((BO, BI), dtype=tl.float32)
    total = tl.zeros((BO,), dtype=tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        place = (client * rows + r)[:, None] * outputs + o[None, :]
        g = tl.load(dy + place, mask=(r < rows)[:, None] & (o < outputs)[None, :], other=0.0)
        low = g.to(x.dtype.element_ty)
        here = (client * rows + r)[:, None] * inputs + i[None, :]
        inside = (r < rows)[:, None] & (i < inputs)[None, :]
        if WEIGHT:
            total += tl.sum(g, axis=0)
            gradient = tl.dot(tl.trans(low), tl.load(x + here, mask=inside, other=0.0), gradient)
        if INPUT:
            tl.store(dx + here, tl.dot(low, w).to(dx.dtype.element_ty), mask=inside)
    if WEIGHT:
        tl.store(d_weight + at, gradient, mask=real)
        tl.store(d_bias + client * outputs + o, total, mask=o < outputs)


class NarrowProduct(torch.autograd.Function):
    """y [N, B, O] in float32 of inputs x [N, B, I], weights [N, O, I] and bias [N, O]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        n, rows, inputs = x.shape
        outputs = weight.shape[1]
        y = torch.empty(n, rows, outputs, device=x.device)
        _forward[(triton.cdiv(rows, ROWS), n)](
            x, weight, bias, y, rows, inputs, outputs, ROWS, *_widths(inputs, outputs)
        )
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        n, rows, inputs = x.shape
        outputs = weight.shape[1]
        to_input, to_weight = ctx.needs_input_grad[:2]
        dx = torch.empty_like(x) if to_input else None
        d_weight = torch.empty_like(weight) if to_weight else None
        d_bias = torch.empty(n, outputs, device=x.device) if to_weight else None
        _backward[(n,)](
            x, dy.contiguous(), weight, dx if to_input else x, d_weight if to_weight else weight,
            d_bias if to_weight else weight, rows, inputs, outputs, to_input, to_weight, ROWS,
            *_widths(inputs, outputs),
        )  # fmt: skip
        return dx, d_weight, d_bias


class NarrowLinear(StackedLinear):
    """`StackedLinear` on these kernels."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = NarrowProduct.apply(x.contiguous(), self.weight, self.bias)
        return y


def narrow(layer: nn.Linear) -> bool:
    """Whether the kernels can do the work of a layer."""
    return layer.out_features <= MOST_OUTPUTS and layer.in_features <= MOST_INPUTS and layer.bias is not None


def _widths(inputs: int, outputs: int) -> tuple[int, int]:
    """Sides of the tile that holds all weights; a product needs 16 at least."""
    return max(triton.next_power_of_2(inputs), 16), max(triton.next_power_of_2(outputs), 16)
