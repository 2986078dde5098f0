"""Parts of a module that torch.export cannot capture, and torch runs inside the model."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import pyopnb

torch = pytest.importorskip("torch")
nn = torch.nn

import pyopnb.torch  # noqa: E402


class Decides(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return -x


class Halves(nn.Module):
    def forward(self, x):
        while x.max() > 1:
            x = x / 2
        return x


class Solves(nn.Module):
    def forward(self, x, y):
        # For infinite numbers, LAPACK gives what was in memory, another time something else.
        x, y = (torch.nan_to_num(each, 0.0, 1e3, -1e3) for each in (x, y))
        return torch.linalg.lstsq(x, y).solution * 2


class Sorts(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 3)

    def forward(self, x):
        return torch.from_numpy(np.sort(self.line(x).detach().numpy(), axis=0)) + 1


class Packs(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4)
        self.rnn = nn.GRU(4, 5, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.words(ids), lengths, batch_first=True, enforce_sorted=False
        )
        return self.head(self.rnn(packed)[1][-1])


class Groups(nn.Module):
    def forward(self, x, ids):
        groups, place = torch.unique(ids, return_inverse=True)
        return torch.zeros(len(groups), x.shape[1]).index_add(0, place, x)


class Tree(nn.Module):
    """A recursive network: the children of each node, by their numbers, and the word of each leaf."""

    def __init__(self):
        super().__init__()
        self.join, self.words = nn.Linear(8, 4), nn.Embedding(10, 4)

    def node(self, left, right, ids, number):
        if left[number] < 0:
            return self.words(ids[number])
        children = [self.node(left, right, ids, int(side[number])) for side in (left, right)]
        return torch.tanh(self.join(torch.cat(children)))

    def forward(self, left, right, ids):
        return self.node(left, right, ids, 0)


class Quantized(nn.Module):
    def forward(self, x):
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()


class Bins(nn.Module):
    """Returns a list beside a tensor inside, which no node can."""

    def forward(self, x):
        return torch.histogramdd(x, [3, 2], range=[-3.0, 3.0, -3.0, 3.0]).hist


class Scatters(nn.Module):
    """Fails in the exporter's own decomposition (torch 2.13)."""

    def forward(self, x):
        return torch.diagonal_scatter(x, x[0] * 2)


class Overwrites(nn.Module):
    def forward(self, x):
        x[x > float(x.mean())] = 0
        return x


class Products(nn.Module):
    def forward(self, x):
        return torch.kron(x, x.T.contiguous())


class Lists(nn.Module):
    def forward(self, x):
        return torch.stack([x * weight for weight in x[:, 0].tolist()]).sum(0)


class Steps(nn.Module):
    def forward(self, x):
        state = torch.zeros(x.shape[1])
        for row in x:
            state = torch.tanh(state + row)
        return state


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(3, 4), Decides(), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.relu(self.middle(self.first(x))))


def export(module, args, sizes=None):
    """Export a module whose sizes have names, and return the model and the calls that stayed in torch."""
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = pyopnb.torch.export(module.eval(), args, dynamic_shapes=sizes)
    reports = [entry.message for entry in caught if entry.category is pyopnb.torch.StandIns]
    holes = []
    for report in reports:
        holes.extend(report.holes)
    return model, holes


def agree(module, session, *args):
    """Compare a session with the module on arguments."""
    feeds = {}
    for info, arg in zip(session.get_inputs(), args, strict=True):
        feeds[info.name] = arg.numpy().copy()
    result = session.run(None, feeds)[0]
    for info, arg in zip(session.get_inputs(), args, strict=True):
        np.testing.assert_array_equal(feeds[info.name], arg.numpy())
    with torch.no_grad():
        expected = module(*(arg.clone() for arg in args))
    assert result.shape == tuple(expected.shape)
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-5, atol=1e-6)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def words(*values):
    return torch.tensor(values)


N = {0: "n"}
AUTO = torch.export.Dim.AUTO
OPEN = {0: AUTO, 1: AUTO}
CASES = [
    (Decides(), (N,), [(numbers(4, 3).abs(),), (-numbers(4, 3).abs(),), (numbers(9, 3).abs(),)]),
    (Halves(), (N,), [(numbers(4, 3) * 8,), (numbers(1, 3) * 100,), (-numbers(7, 3).abs(),)]),
    (
        Solves(),
        (N, N),
        [(numbers(5, 3), numbers(5, 2, seed=1)), (numbers(8, 3), numbers(8, 2, seed=1))],
    ),
    (Sorts(), (N,), [(numbers(4, 3),), (numbers(6, 3),), (numbers(0, 3),)]),
    (
        Packs(),
        ({0: "n", 1: "t"}, N),
        [
            (torch.arange(21).reshape(3, 7) % 10, words(7, 3, 5)),
            (torch.arange(20).reshape(2, 10) % 7, words(1, 10)),
        ],
    ),
    (
        Groups(),
        (N, N),
        [
            (numbers(6, 3), words(3, 1, 3, 7, 1, 1)),
            (numbers(6, 3), words(1, 1, 1, 1, 1, 1)),
            (numbers(4, 3), words(4, 3, 2, 1)),
        ],
    ),
    (
        Tree(),
        (N, N, N),
        [
            (words(1, -1, 3, -1, -1), words(2, -1, 4, -1, -1), words(0, 1, 2, 3, 4)),
            (words(1, -1, -1), words(2, -1, -1), words(5, 6, 7)),
            (words(-1), words(-1), words(9)),
        ],
    ),
    (Products(), (N,), [(numbers(3, 4),), (numbers(5, 4),), (numbers(1, 4),)]),
    (Lists(), (N,), [(numbers(4, 3),), (numbers(7, 3),)]),
    (Steps(), (N,), [(numbers(5, 3),), (numbers(1, 3),), (numbers(9, 3),)]),
    (Steps(), (N,), [(numbers(1, 3),), (numbers(4, 3),)]),
    (Quantized(), (N,), [(numbers(4),), (numbers(9) * 3,)]),
    (nn.Sequential(nn.ReLU(), Bins()), None, [(numbers(4, 2),), (numbers(4, 2, seed=1),)]),
    (Scatters(), None, [(numbers(3, 3),), (numbers(3, 3, seed=1),)]),
    (nn.Sequential(nn.ReLU(), Quantized()), None, [(numbers(4),), (numbers(4, seed=1),)]),
    (Overwrites(), (N,), [(numbers(4, 3),), (numbers(5, 3),)]),
]


@pytest.mark.parametrize(
    ("module", "sizes", "examples"), CASES, ids=[type(case[0]).__name__ for case in CASES]
)
def test_it_runs_at_other_values_and_sizes(module, sizes, examples):
    model, holes = export(module, examples[0], sizes)
    assert len(holes) == 1
    assert "torch.export cannot capture" in holes[0].reason
    part = module[1] if isinstance(module, nn.Sequential) else module
    assert type(part).__name__ in str(holes[0])
    session = pyopnb.Session(model)
    for example in (*examples, examples[0]):
        agree(module, session, *example)


def test_an_op_of_another_library_without_a_fake_implementation():
    torch.library.define("pyopnbtests::hat", "(Tensor x, float width) -> Tensor")
    torch.library.impl("pyopnbtests::hat", "CPU", lambda x, width: (1 - x.abs() / width).clamp(0))

    class Hat(nn.Module):
        def forward(self, x):
            return torch.ops.pyopnbtests.hat(x, 0.5)

    module = nn.Sequential(nn.Linear(3, 3), Hat())
    model, (hole,) = export(module, (numbers(4, 3),), (N,))
    assert (hole.path, hole.remedy) == ("1 (Hat)", "torch.library.register_fake for it")
    agree(module, pyopnb.Session(model), numbers(7, 3, seed=1))


def test_only_the_submodule_stays_in_torch():
    module = Around()
    model, (hole,) = export(module, (numbers(4, 3),), (N,))
    assert "submodule middle (Decides): a branch that depends on values of a tensor" in hole.reason
    assert "`if x.sum() > 0:`" in hole.line
    assert (hole.path, hole.remedy) == ("middle (Decides)", "torch.cond, or torch.where")
    assert len([node for node in model.graph.node if node.domain.startswith("torch")]) == 1
    assert len(model.graph.node) > 3
    session = pyopnb.Session(model)
    for seed in range(8):
        agree(module, session, numbers(5, 3, seed=seed))


class Deep(nn.Module):
    """Has more weights than an op of torch may have parameters."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(40))

    def forward(self, x):
        for layer in self.layers:
            if x.sum() > 0:
                x = layer(x).relu() + x
        return x


def test_a_part_with_more_weights_than_an_op_may_have_parameters():
    module = Deep()
    model, (hole,) = export(module, (numbers(4, 3).abs(),), (N,))
    assert "and 76 more) -> float32" in hole.types
    session = pyopnb.Session(model)
    for size in (4, 7):
        agree(module, session, numbers(size, 3).abs())
    assert [info.name for info in model.graph.initializer].count("layers.39.weight") == 1


def test_two_parts_do_not_become_the_whole_module():
    module = nn.Sequential(Decides(), nn.Linear(3, 3), Halves(), nn.Linear(3, 2))
    model, holes = export(module, (numbers(4, 3).abs(),), (N,))
    assert [hole.path for hole in holes] == ["0 (Decides)", "2 (Halves)"]
    assert [node.op_type for node in model.graph.node if not node.domain.startswith("torch")]
    session = pyopnb.Session(model)
    for example in (numbers(4, 3).abs(), -numbers(7, 3).abs(), 9 * numbers(2, 3).abs()):
        agree(module, session, example)


def test_a_size_that_torch_fixes_stays_open_in_the_submodule_that_fixes_it():
    module = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), Steps()), nn.Linear(3, 2))
    model, (hole,) = export(module, (numbers(5, 3),), (N,))
    assert "submodule 1.1 (Steps)" in hole.reason
    assert "`for row in x:`, which takes only 5 there" in hole.reason
    assert [node.op_type for node in model.graph.node if not node.domain.startswith("torch")]
    session = pyopnb.Session(model)
    for size in (5, 1, 2, 11):
        agree(module, session, numbers(size, 3, seed=size))


class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rnn = nn.Embedding(10, 4), nn.LSTM(4, 5, num_layers=2, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, ids):
        return torch.relu(self.head(self.rnn(self.words(ids))[0]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_weights_that_torch_has_packed_stay_in_torch():
    module = torch.ao.quantization.quantize_dynamic(Quantized().eval(), dtype=torch.qint8)
    ids = torch.arange(60).reshape(5, 12) % 10
    model, holes = export(module, (ids[:3, :6],), ({0: "n", 1: "t"},))
    assert [hole.path for hole in holes] == ["rnn (LSTM)", "head (Linear)"]
    assert "packed" in holes[0].reason
    assert {"Gather", "Relu"} <= {node.op_type for node in model.graph.node}
    session = pyopnb.Session(model)
    for rows, times in ((3, 6), (5, 12), (1, 1)):
        agree(module, session, ids[:rows, :times])


class Compares(nn.Module):
    def forward(self, x, y):
        return torch.equal(x, y)


def test_a_bool_of_the_whole_module_is_an_output():
    x = torch.arange(6.0).reshape(2, 3)
    model, _ = export(Compares(), (x, x.clone()), ({0: "n"}, {0: "n"}))
    session = pyopnb.Session(model)
    for other in (x, x + 1):
        assert session(x=x.numpy(), y=other.numpy())[0] == torch.equal(x, other)


class Reshapes(nn.Module):
    def forward(self, x):
        return x.reshape(2, 6)


def test_a_size_that_forward_fixes_is_an_error():
    with pytest.raises(pyopnb.errors.ModelError, match="-1 in the place of 2"):
        pyopnb.torch.export(Reshapes().eval(), (numbers(2, 6),), dynamic_shapes=(N,))


def test_missing_lists_the_part():
    (hole,) = pyopnb.torch.missing(Around().eval(), (numbers(4, 3),))
    assert "submodule middle" in hole.reason


def test_the_weights_are_those_of_the_export():
    first, second = Around(), Around()
    nn.init.constant_(first.last.bias, 100)
    sessions = []
    for module in (first, second):
        sessions.append(pyopnb.Session(export(module, (numbers(4, 3),), (N,))[0]))
    x = numbers(2, 3, seed=5)
    agree(first, sessions[0], x)
    agree(second, sessions[1], x)
    sorts = Sorts()
    session = pyopnb.Session(export(sorts, (numbers(4, 3),), (N,))[0])
    with torch.no_grad():
        expected = sorts(x).numpy()
    nn.init.zeros_(sorts.line.weight)
    name = session.get_inputs()[0].name
    np.testing.assert_allclose(session.run(None, {name: x.numpy()})[0], expected, rtol=1e-5)


class Noise(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            # So little that two runs agree within the tolerance.
            return x + torch.rand(()) * 1e-6
        return x


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        if x.sum() > 0:
            self.count += 1
        return x * 1


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls if x.sum() > 0 else x


class Shrinks(nn.Module):
    def forward(self, x):
        return x[0].sum() if len(x) > 2 and x.sum() > 0 else x


@pytest.mark.parametrize(
    ("module", "words_of_it"),
    [
        (Noise(), "random numbers"),
        (Counts(), "one that writes to count"),
        (Remembers(), "a forward that remembers earlier calls"),
        (Decides().train(), "training"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_what_is_refused(module, words_of_it):
    with pytest.raises(pyopnb.errors.ModelError) as caught:
        pyopnb.torch.export(
            module if module.training and type(module) is Decides else module.eval(),
            (torch.ones(3, 3),),
        )
    assert words_of_it in str(caught.value)


def test_results_of_another_rank_are_refused():
    with pytest.raises(pyopnb.errors.ModelError, match="cannot capture|torch.cond|a branch"):
        pyopnb.torch.export(Shrinks().eval(), (torch.ones(3, 3),), dynamic_shapes=(N,))


class Cuts(nn.Module):
    """Returns a part of its input for values that no trial has."""

    def forward(self, x):
        return x[:1] if x.max() > 1e30 else x * 2


def test_sizes_that_no_run_had_are_an_error_and_no_wrong_number():
    module = Cuts()
    session = pyopnb.Session(export(module, (torch.ones(3),), (N,))[0])
    agree(module, session, numbers(5))
    name = session.get_inputs()[0].name
    with pytest.raises(pyopnb.errors.ModelError, match="as in every run at the export"):
        session.run(None, {name: np.full(5, 2e30, np.float32)})
    agree(module, session, numbers(5))


class Covariances(nn.Module):
    def forward(self, x):
        return torch.cov(x)


def test_a_size_with_results_of_another_rank_is_an_error_and_no_wrong_number():
    module = Covariances()
    session = pyopnb.Session(export(module, (numbers(3, 6),), (N,))[0])
    agree(module, session, numbers(5, 6))
    name = session.get_inputs()[0].name
    with pytest.raises(pyopnb.errors.ModelError, match="got results of other types"):
        session.run(None, {name: numbers(1, 6).numpy()})


class Doubles(nn.Module):
    """Has no end for values whose sum is negative, neither has the run in torch."""

    def forward(self, x):
        steps = 0
        while x.sum() < 100:
            x, steps = x * 2, steps + 1
            if steps > 100_000:
                # Nothing between here and the test takes this for an error of forward.
                raise KeyboardInterrupt("the loop was let run for ever")
        return x


def test_a_loop_that_never_ends_for_some_values():
    module = Doubles()
    session = pyopnb.Session(export(module, (torch.ones(3),), (N,))[0])
    agree(module, session, numbers(6).abs())


class Locked(Decides):
    """Holds what cannot be copied, so that its weights of now could not be kept."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_what_cannot_be_copied_has_the_message_of_the_capture():
    with pytest.raises(pyopnb.errors.ModelError, match=r"Try: torch\.cond, or torch\.where"):
        pyopnb.torch.export(Locked().eval(), (torch.ones(3),))


def test_an_error_of_forward_is_told_as_before():
    with pytest.raises(pyopnb.errors.ModelError, match="arguments that forward takes"):
        pyopnb.torch.export(Solves().eval(), (torch.ones(3), torch.ones(2)))


def test_save_says_that_a_part_has_no_text(tmp_path):
    model, _ = export(Around(), (numbers(4, 3),), (N,))
    with pytest.raises(pyopnb.errors.DefinitionError, match="a part of a module"):
        pyopnb.save(model, tmp_path / "m.onnx")


def test_threads_run_a_part_at_once():
    module = Around()
    session = pyopnb.Session(export(module, (numbers(4, 3),), (N,))[0])
    failures = []

    def work(seed):
        try:
            for step in range(20):
                agree(module, session, numbers(3 + seed, 3, seed=seed * 100 + step))
        except AssertionError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("sizes", [None, ({0: "n", 1: "t"},)])
def test_an_example_that_is_a_part_of_a_larger_tensor(sizes):
    module = nn.Sequential(nn.ReLU(), nn.Tanh())
    for example in (numbers(5, 8)[:3, :6], numbers(6, 3).T, numbers(1, 6).expand(3, 6)):
        model, _ = export(module, (example,), sizes)
        agree(module, pyopnb.Session(model), numbers(*example.shape))
