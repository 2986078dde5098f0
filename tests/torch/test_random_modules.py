"""Modules of ops at random, at three sizes, with NaN and infinities: none comes out wrong. ``make test-all`` tries 300."""

import functools
import os
import random

import pytest
import torch
from torch import nn

COUNT = {"all": 300}.get(os.environ.get("PYOPNB_OP_DB", ""), 3)

functional = nn.functional
UNARY = (
    torch.relu,
    torch.tanh,
    torch.abs,
    torch.sign,
    torch.sigmoid,
    # Torch gives inf or NaN for gelu of inf, by the number of elements (torch 2.13).
    lambda a: functional.gelu(a.clamp(max=99)),
    lambda a: functional.gelu(a, approximate="tanh"),
    functional.elu,
    functional.softplus,
    functional.logsigmoid,
    torch.floor,
    torch.neg,
    torch.atan,
    lambda a: a.clamp(min=-1),
    lambda a: a.clamp(-2, 3),
    lambda a: a % 3,
    lambda a: a // 0.7,
    lambda a: a.softmax(-1),
    lambda a: a.cumsum(1),
    lambda a: a.sort(1)[0],
    lambda a: a.flip(1),
    lambda a: a.roll(1, 1),
    lambda a: a[:, ::2].repeat_interleave(2, 1),
    lambda a: a.masked_fill(a > 1, 0.5),
    lambda a: a - a.mean(1, keepdim=True),
    lambda a: a / (1 + a.std(1, keepdim=True)),
    lambda a: functional.layer_norm(a, (4,)),
    lambda a: a.clamp(-9, 9).nan_to_num().to(torch.int32).to(a.dtype) + a,
    lambda a: a.isnan() * 1.0 + a.nan_to_num(),
    lambda a: functional.pad(a, (1, 1))[:, 1:-1],
    lambda a: a.index_select(1, torch.tensor([3, 1, 0, 2])),
    lambda a: torch.lgamma(a.clamp(1, 5)),
    lambda a: (a.double() * 2).float(),
)
BINARY = (
    torch.add,
    torch.mul,
    torch.sub,
    torch.maximum,
    torch.minimum,
    torch.hypot,
    torch.atan2,
    torch.logaddexp,
    lambda a, b: torch.where(a > b, a, b * 2),
    lambda a, b: a / (b.abs() + 1),
    lambda a, b: torch.cat([a[:, :2], b[:, 2:]], 1),
    lambda a, b: (a.clamp(-9, 9).nan_to_num() @ b.clamp(-9, 9).nan_to_num().mT) @ b,
)
LAST = (
    lambda a: a,
    lambda a: a.sum(0),
    lambda a: a.mean(0),
    lambda a: a.any(1),
    lambda a: a.amax(1),
    lambda a: a.amin(0),
    lambda a: torch.cat(a.aminmax(dim=1)),
    lambda a: a.max(1)[0] + a.min(1)[1],
    lambda a: a.logsumexp(1),
    lambda a: a.norm(float("inf"), 1),
    lambda a: functional.max_pool1d(a, 2),
    lambda a: functional.max_pool1d(a, 3, 2, 1, return_indices=True)[1],
    lambda a: functional.adaptive_max_pool1d(a, 2),
    lambda a: (a > 0).sum(0),
    lambda a: a.argmax(1),
    lambda a: a.argmin(0),
)


class Random(nn.Module):
    def __init__(self, seed):
        super().__init__()
        chooser = random.Random(seed)
        self.steps = [chooser.choice(UNARY + BINARY) for _ in range(chooser.randint(2, 5))]
        self.last = chooser.choice(LAST)
        torch.manual_seed(seed)
        self.layer = chooser.choice([nn.Identity(), nn.Linear(4, 4), nn.LayerNorm(4), nn.PReLU()])

    def forward(self, a, b):
        a = self.layer(a)
        for step in self.steps:
            a = step(a, b) if step in BINARY else step(a)
        return self.last(a)


@pytest.mark.filterwarnings("ignore:(var|std)")
@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_module(exported, seed):
    drawn = functools.partial(torch.randn, generator=torch.Generator().manual_seed(seed))
    examples = [(drawn(size, 4), drawn(size, 4)) for size in (3, 1, 6)]
    for value in (float("nan"), float("inf"), float("-inf"), 200.0):
        special = drawn(3, 4), drawn(3, 4)
        special[0][1, 2] = value
        examples.append(special)
    sizes = {"dynamic_shapes": ({0: "n"}, {0: "n"})}
    exported(Random(seed).eval(), *examples, rtol=1e-3, atol=1e-4, **sizes)
