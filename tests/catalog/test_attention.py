"""Attention of com.microsoft that has no kernel on CPUs, against kernels that have one and against loops."""

import numpy as np
import pytest
from entry_calls import equal, near, run, softmax

import pyopnb


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("bias_batch", [None, 1, 3])
@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_packed_attention_is_attention_without_padding(dtype, bias_batch, scale):
    random = np.random.default_rng(0)
    heads, length, lengths = 2, 4, [1, 2, 4]
    begins = np.int32([0, 1, 3, 7])
    rows = random.standard_normal((7, 6), np.float32).astype(dtype)
    weights = random.standard_normal((6, 24), np.float32).astype(dtype)
    bias = random.standard_normal(24, np.float32).astype(dtype)
    offsets = np.zeros((3, length), np.int32)
    extra, attention_bias = [], None
    if bias_batch:
        attention_bias = random.standard_normal((bias_batch, heads, length, length), np.float32)
        extra = [attention_bias.astype(dtype)]
        attention_bias = extra[0].astype(np.float32)
    attrs = {"num_heads": heads, "scale": scale} if scale else {"num_heads": heads}
    result = run(
        "com.microsoft::PackedAttention", rows, weights, bias, offsets, begins, *extra, **attrs
    )
    # The ONNX Runtime Attention, one sentence at a time.
    wide = [array.astype(np.float32) for array in (rows, weights, bias)]
    tolerance = 1e-5 if dtype == "float32" else 5e-3
    projected = wide[0] @ wide[1] + wide[2]
    query, key, value = np.split(projected, 3, axis=1)
    packed = np.stack([part.reshape(7, heads, 4) for part in (query, key, value)], axis=2)
    results = [result]
    for name, inputs in {
        "separate": (query, key, value, None),
        "packed": (packed, None, None, None),
        "biased": (query - 1, key - 1, value - 1, np.ones(24, np.float32)),
    }.items():
        bias_inputs = [] if attention_bias is None else [attention_bias]
        multi = run(
            "com.microsoft::PackedMultiHeadAttention",
            *[None if array is None else np.ascontiguousarray(array) for array in inputs],
            offsets,
            begins,
            *bias_inputs,
            **attrs,
        )
        np.testing.assert_allclose(multi, result, rtol=tolerance, atol=tolerance, err_msg=name)
        results.append(multi)
    for sentence, count in enumerate(lengths):
        share = slice(begins[sentence], begins[sentence + 1])
        arguments = [wide[0][None, share], wide[1], wide[2], None, None]
        if attention_bias is not None:
            number = sentence if bias_batch > 1 else 0
            arguments.append(
                np.ascontiguousarray(attention_bias[number : number + 1, :, :count, :count])
            )
        expected = pyopnb.call("com.microsoft::Attention", *arguments, **attrs)
        for rows in results:
            near(rows[share], expected[0], tolerance, tolerance)


@pytest.mark.parametrize("static_kv", [False, True])
@pytest.mark.parametrize("use_past", [False, True])
@pytest.mark.parametrize("has_mask", [False, True])
def test_a_decoder_attends_to_its_cache_or_to_the_encoder(static_kv, use_past, has_mask):
    random = np.random.default_rng(1)
    steps, batch, heads, size, others = 2, 2, 2, 3, 4
    width = heads * size
    query = random.standard_normal((steps, batch, width), np.float32)
    key = random.standard_normal((others, batch, width), np.float32)
    query_weight = random.standard_normal((width, width), np.float32)
    key_value_weight = random.standard_normal((width, 2 * width), np.float32)
    bias = random.standard_normal(3 * width, np.float32)
    caches = random.standard_normal((2, batch, heads, others, size)).astype(np.float32)
    if static_kv:
        total = others
    else:
        total = steps + (others if use_past else 0)
    mask = np.zeros((batch, total), bool)
    mask[1, -1] = True
    flags = [np.bool_(flag) for flag in (static_kv, use_past, False, has_mask)]
    result, new_key, new_value = run(
        "com.microsoft::DecoderAttention",
        *(query, key, query_weight, key_value_weight, bias, mask, *caches, *flags),
        num_heads=heads,
    )
    assert new_key.shape == (batch, heads, total, size)
    for image, head, step in np.ndindex(batch, heads, steps):
        channels = slice(head * size, (head + 1) * size)
        vector = (query[step, image] @ query_weight + bias[:width])[channels].astype(float)
        source = key if static_kv else query
        both = source[:, image] @ key_value_weight + bias[width:]
        keys, values = both[:, channels], both[:, width:][:, channels]
        if use_past:
            past_keys, past_values = caches[0, image, head], caches[1, image, head]
            keys = past_keys if static_kv else np.concatenate([past_keys, keys])
            values = past_values if static_kv else np.concatenate([past_values, values])
        near(new_key[image, head], keys, 1e-5, 1e-6)
        near(new_value[image, head], values, 1e-5, 1e-6)
        logits = keys @ vector / np.sqrt(size)
        if has_mask:
            logits = np.where(mask[image], -np.inf, logits)
        expected = softmax(logits) @ values
        near(result[step, image, channels], expected, 1e-4, 1e-5)


def test_a_longformer_sees_its_window_and_the_global_tokens():
    random = np.random.default_rng(2)
    length, heads, size, window = 12, 2, 4, 2
    width = heads * size
    x = random.standard_normal((1, length, width), np.float32)
    weight, global_weight = random.standard_normal((2, width, 3 * width)).astype(np.float32)
    bias, global_bias = random.standard_normal((2, 3 * width)).astype(np.float32)
    mask = np.zeros((1, length), np.float32)
    mask[0, -2:] = -10000
    is_global = np.zeros((1, length), np.int32)
    is_global[0, [0, 7]] = 1
    result = run(
        "com.microsoft::LongformerAttention",
        *(x, weight, bias, mask, global_weight, global_bias, is_global),
        num_heads=heads,
        window=window,
    )
    local = np.split(x[0] @ weight + bias, 3, axis=1)
    everywhere = np.split(x[0] @ global_weight + global_bias, 3, axis=1)
    for token, head in np.ndindex(length, heads):
        channels = slice(head * size, (head + 1) * size)
        query, keys, values = everywhere if is_global[0, token] else local
        seen = [
            number
            for number in range(length)
            if is_global[0, token] or is_global[0, number] or abs(number - token) <= window
        ]
        logits = keys[seen, channels] @ query[token, channels] / np.sqrt(size) + mask[0, seen]
        expected = softmax(logits.astype(float)) @ values[seen, channels]
        near(result[0, token, channels], expected, 1e-4, 1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("window", [-1, 2])
@pytest.mark.parametrize("has_sink", [False, True])
@pytest.mark.parametrize("is_packed", [False, True])
def test_paged_attention_reads_and_writes_blocks(interleaved, window, has_sink, is_packed):
    random = np.random.default_rng(3)
    heads, key_heads, size, block = 4, 2, 4, 2
    begins, past = np.int32([0, 1, 4]), np.int32([3, 0])
    table = np.int32([[5, 1, -1], [0, 3, -1]])
    query = random.standard_normal((4, heads * size)).astype(np.float16)
    key, value = random.standard_normal((2, 4, key_heads * size)).astype(np.float16)
    caches = random.standard_normal((2, 6, block, key_heads, size)).astype(np.float16)
    angles = random.uniform(0, 3, (8, size // 2)).astype(np.float16)
    cosine, sine = np.cos(angles), np.sin(angles)
    norms = random.uniform(0.5, 2, (2, size)).astype(np.float16)
    sink = random.standard_normal(heads).astype(np.float16) if has_sink else None
    inputs = (
        [np.concatenate([query, key, value], 1), None, None] if is_packed else [query, key, value]
    )
    attrs = {"num_heads": heads, "kv_num_heads": key_heads, "do_rotary": 1, "softcap": 5.0}
    result, new_keys, new_values = run(
        "com.microsoft::PagedAttention",
        *(*inputs, *caches, begins, past, table, cosine, sine, None, sink, *norms),
        rotary_interleaved=interleaved,
        local_window_size=window,
        **attrs,
    )

    def turned(vector, norm, position):
        vector = vector.astype(float) / np.sqrt(np.mean(vector.astype(float) ** 2) + 1e-6) * norm
        pairs = [(0, 1), (2, 3)] if interleaved else [(0, 2), (1, 3)]
        rotated = vector.copy()
        for number, (first, second) in enumerate(pairs):
            c, s = float(cosine[position, number]), float(sine[position, number])
            rotated[first] = vector[first] * c - vector[second] * s
            rotated[second] = vector[first] * s + vector[second] * c
        return rotated

    for sequence, (start, end) in enumerate([(0, 1), (1, 4)]):
        for token in range(start, end):
            position = past[sequence] + token - start
            page = table[sequence, position // block]
            for head in range(heads):
                shared = head // 2
                written = turned(key[token, shared * size :][:size], norms[1], position)
                near(new_keys[page, position % block, shared], written, 5e-3, 5e-3)
                vector = turned(query[token, head * size :][:size], norms[0], position)
                seen = [
                    number
                    for number in range(position + 1)
                    if window < 0 or position - number < window
                ]
                pages = [
                    (table[sequence, number // block], number % block, shared) for number in seen
                ]
                scores = [
                    float(new_keys[page_of].astype(float) @ vector) / np.sqrt(size)
                    for page_of in pages
                ]
                scores = [5 * np.tanh(score / 5) for score in scores]
                weights = softmax(np.array([*scores, float(sink[head])] if has_sink else scores))
                values = np.array([new_values[page_of] for page_of in pages], float)
                expected = weights[: len(pages)] @ values
                shown = result[token, head * size :][:size]
                near(shown, expected, 1e-2, 1e-2)
    # Unowned blocks stay as they were.
    equal(new_keys[[2, 4]], caches[0][[2, 4]])


def test_slots_may_be_named_and_quantized_caches_are_refused():
    zeros = np.zeros((2, 2, 1, 4), np.float16)
    row = np.ones((1, 4), np.float16)
    inputs = (row, row, row, zeros, zeros, np.int32([0, 1]), np.int32([0]), np.int32([[1]]))
    attrs = {"num_heads": 1, "kv_num_heads": 1}
    unwritten = (None, None, np.int32([-1]))
    _, keys, _ = run("com.microsoft::PagedAttention", *inputs, *unwritten, **attrs)
    assert not keys.any()
    _, keys, _ = run("com.microsoft::PagedAttention", *inputs, None, None, np.int32([3]), **attrs)
    assert (keys[1, 1] == 1).all() and keys.sum() == 4
    with pytest.raises(ValueError, match="caches of floats"):
        run("com.microsoft::PagedAttention", *inputs, k_quant_type="PER_TENSOR", **attrs)


def test_padding_is_removed_behind_an_attention_of_symbolic_sizes():
    """ONNX Runtime infers that such an Attention gives rows of no elements."""
    nodes = [
        pyopnb.node("com.microsoft::Attention", ["x", "w", "b"], "attended", num_heads=2),
        pyopnb.node("com.microsoft::RemovePadding", ["attended", "n"], ["y", "o", "c", "m"]),
    ]
    inputs = {"x": "float32[B,S,D]", "w": "float32[D,W]", "b": "float32[W]", "n": "int32[B]"}
    model = pyopnb.model(nodes, inputs, {"y": "float32[T,D]"})
    with pytest.warns(pyopnb.errors.Filled):
        session = pyopnb.Session(model, fill=True)
    x = np.random.default_rng(4).standard_normal((2, 3, 4), np.float32)
    arrays = (x, np.ones((4, 12), np.float32), np.ones(12, np.float32))
    attended = pyopnb.call("com.microsoft::Attention", *arrays, num_heads=2)
    rows = session(dict(zip("xwbn", (*arrays, np.int32([1, 3])), strict=True)))["y"]
    expected = np.concatenate([attended[0, :1], attended[1]])
    near(rows, expected, 1e-5)
