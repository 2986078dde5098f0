"""Decoders with their caches: exported once, run token after token."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import pyopnb
import pyopnb.torch
from pyopnb.torch import StandIns

CONFIG = LlamaConfig(
    vocab_size=50,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)
CACHE = {0: "batch", 2: "past"}


def exported(decoder, kwargs=None, **dynamic_shapes):
    ids = torch.arange(10).reshape(2, 5)
    keys = torch.randn(2, 2, 3, 8)
    cache = DynamicCache([(keys, keys + 1), (keys + 2, keys + 3)])
    model = pyopnb.torch.export(
        decoder,
        (),
        {"input_ids": ids[:, 3:], "cache": cache, **(kwargs or {})},
        dynamic_shapes={"cache": CACHE, "input_ids": {0: "batch", 1: "new"}, **dynamic_shapes},
        input_names=["ids"],
        output_names=["scores"],
    )
    # The user's cache does not grow.
    assert cache.get_seq_length() == 3
    assert torch.equal(cache.layers[0].keys, keys)
    return model


def test_a_decoder_generates_what_transformers_generates():
    decoder = LlamaForCausalLM(CONFIG).eval()
    model = exported(decoder)
    session = pyopnb.Session(model)
    cache_names = [entry.name for entry in session.get_inputs()][1:]
    assert len(cache_names) == len(session.get_outputs()) - 1 == 4
    # From no token on, the cache grows by the result of each run.
    prompt = np.array([[3, 14, 15], [9, 2, 6]])
    cache = [np.zeros((2, 2, 0, 8), np.float32)] * 4
    ids, tokens = prompt, []
    for _ in range(12):
        scores, *cache = session.run(
            None, {"ids": ids, **dict(zip(cache_names, cache, strict=True))}
        )
        ids = scores[:, -1:].argmax(-1)
        tokens.append(ids)
    assert cache[0].shape == (2, 2, 14, 8)
    expected = decoder.generate(
        torch.from_numpy(prompt),
        max_new_tokens=12,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    assert np.array_equal(np.hstack(tokens), expected[:, 3:].numpy())


def test_prompts_of_different_lengths_generate_together():
    decoder = LlamaForCausalLM(CONFIG).eval()
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 1, 1]])
    positions = torch.tensor([[3, 4], [2, 3]])
    with pytest.warns(StandIns, match="attention_mask, axis 1: always new . past"):
        model = exported(
            decoder,
            {"attention_mask": mask, "position_ids": positions},
            attention_mask={0: "batch", 1: "total"},
            position_ids={0: "batch", 1: "new"},
        )
    session = pyopnb.Session(model)
    assert session.get_inputs()[1].shape == ["batch", "new + past"]
    cache_names = [entry.name for entry in session.get_inputs()][3:]
    prompt = np.array([[3, 14, 15, 9], [0, 0, 2, 6]])
    mask = np.array([[1, 1, 1, 1], [0, 0, 1, 1]])
    cache = [np.zeros((2, 2, 0, 8), np.float32)] * 4
    ids, tokens, total = prompt, [], mask
    for _ in range(8):
        positions = np.maximum(total.cumsum(1) - 1, 0)[:, -ids.shape[1] :]
        feeds = {"ids": ids, "attention_mask": total, "position_ids": positions}
        scores, *cache = session.run(None, feeds | dict(zip(cache_names, cache, strict=True)))
        ids = scores[:, -1:].argmax(-1)
        tokens.append(ids)
        total = np.hstack([total, np.ones((2, 1), np.int64)])
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    expected = decoder.generate(
        torch.from_numpy(prompt), attention_mask=torch.from_numpy(mask), **options
    )
    assert np.array_equal(np.hstack(tokens), expected[:, 4:].numpy())
    alone = decoder.generate(torch.tensor([[2, 6]]), **options)
    assert np.array_equal(np.hstack(tokens)[1], alone[0, 2:].numpy())


class Joined(torch.nn.Module):
    def forward(self, x, y, mask):
        return torch.cat([x, y], 1) * mask


def test_a_size_that_is_the_sum_of_others_needs_no_part_in_torch():
    long, short, sum_of_both = map(torch.export.Dim, ("long", "short", "sum_of_both"))
    sizes = {"x": {1: long}, "y": {1: short}, "mask": {1: sum_of_both}}
    arguments = torch.ones(2, 3), torch.ones(2, 4), torch.ones(2, 7)
    model = pyopnb.torch.export(Joined().eval(), arguments, dynamic_shapes=sizes)
    assert {node.domain for node in model.graph.node} == {""}
    x, y, mask = np.ones((2, 5)), np.ones((2, 1)), np.arange(12.0).reshape(2, 6)
    feeds = {"x": x, "y": y, "mask": mask}
    session = pyopnb.Session(model)
    got = session.run(None, {name: value.astype(np.float32) for name, value in feeds.items()})
    assert np.array_equal(got[0], mask)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"cahce": CACHE}, "expected arguments of forward.*, got cahce. Try: cache"),
        ({"past_key_values": CACHE}, "got past_key_values. Try: cache=…"),
    ],
)
def test_sizes_of_an_argument_that_forward_does_not_have(sizes, words):
    with pytest.raises(pyopnb.errors.InputError, match=words):
        exported(LlamaForCausalLM(CONFIG).eval(), **sizes)


def test_a_cache_under_its_earlier_name():
    cache = DynamicCache([(torch.ones(2, 2, 3, 8), torch.ones(2, 2, 3, 8))] * 2)
    arguments = {"input_ids": torch.ones(2, 2, dtype=torch.int64), "past_key_values": cache}
    sizes = {"input_ids": {0: "batch"}, "past_key_values": CACHE}
    with pytest.raises(pyopnb.errors.InputError, match="opens no sizes .* Try: cache=…"):
        pyopnb.torch.export(LlamaForCausalLM(CONFIG).eval(), (), arguments, dynamic_shapes=sizes)


def test_a_cache_entry_for_an_axis_that_is_not_there():
    with pytest.raises(
        pyopnb.errors.InputError, match="dynamic_shapes, cache: expected a dimension from 0 to 3"
    ):
        exported(LlamaForCausalLM(CONFIG).eval(), cache={0: "batch", 7: "past"})
