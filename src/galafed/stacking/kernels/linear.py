"""The weight gradient of many clients' fully connected layers and the step of SGD it is for, in one pass."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _descend(
    x, dy, weight, momentum, low, rate, rows, inputs, outputs, mu, decay,
    EVEN: tl.constexpr, BO: tl.constexpr, BI: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """g = dyᵀ x + decay w; m = mu m + g; w = w - rate m, and w again in low precision, for a tile of the weights."""
    client = tl.program_id(2).to(tl.int64)
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    place = client * inputs * outputs + o[:, None].to(tl.int64) * inputs + i[None, :]
    x += client * rows * inputs
    dy += client * rows * outputs
    # Asked for first, so that they are on their way while the product is formed. Masks would cost a fifth of the time.
    if EVEN:
        w = tl.load(weight + place)
        m = tl.load(momentum + place)
    else:
        inside = (o < outputs)[:, None] & (i < inputs)[None, :]
        w = tl.load(weight + place, mask=inside, other=0.0)
        m = tl.load(momentum + place, mask=inside, other=0.0)
    total = tl.zeros((BO, BI), dtype=tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        if EVEN:
            a = tl.load(dy + r[:, None] * outputs + o[None, :])
            b = tl.load(x + r[:, None] * inputs + i[None, :])
        else:
            a = tl.load(
                dy + r[:, None] * outputs + o[None, :], mask=(r < rows)[:, None] & (o < outputs)[None, :], other=0.0
            )
            b = tl.load(
                x + r[:, None] * inputs + i[None, :], mask=(r < rows)[:, None] & (i < inputs)[None, :], other=0.0
            )
        total = tl.dot(tl.trans(a), b, total)
    m = mu * m + total + decay * w
    w = w - tl.load(rate) * m
    if EVEN:
        tl.store(momentum + place, m)
        tl.store(weight + place, w)
        tl.store(low + place, w.to(low.dtype.element_ty))
    else:
        tl.store(momentum + place, m, mask=inside)
        tl.store(weight + place, w, mask=inside)
        tl.store(low + place, w.to(low.dtype.element_ty), mask=inside)


TILE = 64


def descend(
    x: Tensor, dy: Tensor, weight: Tensor, momentum: Tensor, low: Tensor, rate: Tensor, *, mu: float, decay: float
) -> None:
    """One step of SGD of weights [N, O, I] with the gradient dyᵀ x of inputs x [N, R, I] and dy [N, R, O], in place."""
    n, rows, inputs = x.shape
    outputs = dy.shape[-1]
    grid = (triton.cdiv(inputs, TILE), triton.cdiv(outputs, TILE), n)
    even = rows % TILE == inputs % TILE == outputs % TILE == 0
    _descend[grid](
        x, dy, weight, momentum, low, rate, rows, inputs, outputs, mu, decay, even, TILE, TILE, TILE,
        num_warps=4, num_stages=2,
    )  # fmt: skip


class Product(torch.autograd.Function):
    """y = x lowᵀ + bias of inputs x [N, B, I]; the weights' gradient is left to the layer's `pending`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, layer: Any) -> Tensor:
        ctx.save_for_backward(x)
        ctx.layer = layer
        # Rows whose length is no multiple of 8 keep the matrix library from its fast kernels; columns do not.
        y = torch.bmm(x, layer.low.mT) if layer.low.shape[1] % 8 == 0 else torch.bmm(layer.low, x.mT).mT
        return y if bias is None else y.add_(bias.unsqueeze(1))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x,), layer = ctx.saved_tensors, ctx.layer
        dy = dy.contiguous()
        if ctx.needs_input_grad[1]:
            layer.pending.append((x.contiguous(), dy))  # another product may have left its transpose
        d_bias = dy.float().sum(dim=1) if ctx.needs_input_grad[2] else None
        dx = torch.bmm(dy, layer.low) if ctx.needs_input_grad[0] else None
        if dy.is_cuda:
            layer.unused = torch.cuda.current_stream(dy.device).record_event()
        return dx, None, d_bias, None
