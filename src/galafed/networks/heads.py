"""Predictors that several networks share."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from galafed.networks.layers import Dropout

HIDDEN = 500


def office_head(features: int, classes: int) -> nn.Module:
    """F of the paper for Office: features [n, features] -> dropout 0.5, 500 units, BN, ReLU -> logits [n, classes]."""
    return nn.Sequential(
        OrderedDict(
            drop1=Dropout(0.5, layer=1),
            full1=nn.Linear(features, HIDDEN),
            norm1=nn.BatchNorm1d(HIDDEN),
            relu1=nn.ReLU(),
            full2=nn.Linear(HIDDEN, classes),
        )
    )
