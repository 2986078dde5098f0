"""Decoders with their caches: exported once, run token after token."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import pyopnb
import pyopnb.torch

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


def exported(decoder, **dynamic_shapes):
    ids = torch.arange(10).reshape(2, 5)
    keys = torch.randn(2, 2, 3, 8)
    cache = DynamicCache([(keys, keys + 1), (keys + 2, keys + 3)])
    model = pyopnb.torch.export(
        decoder,
        (),
        {"input_ids": ids[:, 3:], "cache": cache},
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
    # From no token on, the cache grows by what each run returns.
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


def test_a_cache_entry_for_an_axis_that_is_not_there():
    with pytest.raises(
        pyopnb.errors.InputError, match="dynamic_shapes, cache: expected a dimension from 0 to 3"
    ):
        exported(LlamaForCausalLM(CONFIG).eval(), cache={0: "batch", 7: "past"})
