"""Weights that were trained: their values, how a training is stopped and continued, and what it says."""

import os
import re
import signal
import threading
from functools import partial

import numpy as np
import onnx
import onnxruntime.tools.onnx_model_utils
import pytest
from onnx import numpy_helper

import pyopnb
from pyopnb.errors import InputError, ModelError, NotFinite, RunRefused
from pyopnb.training import SGD, Adam
from pyopnb.training.record import TrainingRecord

# Gradients are judged in tests/grad.
train = partial(pyopnb.train, verify=False)


def by_hand(x, target, rate, steps):
    """Gradient descent on the mean square of w x + b - target, in float64."""
    w = b = 0.0
    losses = []
    for _ in range(steps):
        error = w * x + b - target
        losses.append((error**2).mean())
        w, b = w - rate * 2 * (error * x).mean(), b - rate * 2 * error.mean()
    return w, b, losses


def assert_same(a, b):
    assert np.array_equal(a.losses, b.losses)
    assert all(np.array_equal(a.weights[name], b.weights[name]) for name in b.weights)


def in_parts(flowers):
    return [{name: value[k : k + 40] for name, value in flowers.items()} for k in range(0, 200, 40)]


def test_the_steps_are_those_done_by_hand(line, samples):
    before = line.SerializeToString(deterministic=True)
    result = train(line, samples, loss="mse", optimizer=SGD(0.3), epochs=7, batch_size=None)
    w, b, losses = by_hand(samples["x"].astype(float), samples["target"].astype(float), 0.3, 7)
    np.testing.assert_allclose(result.losses, losses, rtol=1e-5)
    np.testing.assert_allclose([result.weights["w"][0], result.weights["b"][0]], [w, b], rtol=1e-5)
    assert line.SerializeToString(deterministic=True) == before
    trained = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in result.model.graph.initializer
    }
    assert trained["w"] == result.weights["w"] and trained["b"] == result.weights["b"]
    np.testing.assert_allclose(
        pyopnb.run(result.model, x=np.float32([2]))["y"], 2 * w + b, rtol=1e-5
    )


def test_a_wrong_gradient_is_refused_before_the_first_step(define):
    define("""
        @pyopnb.pyop("demo::Double")
        class Double:
            def compute(self, x: "float32[N]") -> "float32[N]": return 2 * x
            def backward(self, inputs, outputs, grads): return grads[0]
        """)
    text = "(float[N] x) => (float loss) <float[1] w = {1}> { p = Mul(x, w)  y = demo.Double(p)  loss = ReduceSum<keepdims = 0>(y) }"
    with pytest.raises(ModelError, match="gradient in 'w'"):
        pyopnb.train(pyopnb.parse(text), {"x": np.ones(2, np.float32)}, loss="loss", batch_size=2)


def test_cross_entropy_and_its_first_gradient_are_numpys(classifier, flowers):
    result = train(classifier, flowers, epochs=1, batch_size=None, train=["b2"], optimizer=SGD(1.0))
    y = pyopnb.run(classifier, x=flowers["x"])["y"].astype(np.float64)
    p = np.exp(y) / np.exp(y).sum(1, keepdims=True)
    chosen = np.arange(200), flowers["kind"]
    assert result.losses[0] == pytest.approx(-np.log(p[chosen]).mean(), rel=1e-5)
    p[chosen] -= 1
    before = numpy_helper.to_array(next(t for t in classifier.graph.initializer if t.name == "b2"))
    np.testing.assert_allclose(result.weights["b2"], before - p.mean(0), atol=1e-6)
    assert result.gradient_norms[0] == pytest.approx(np.linalg.norm(p.mean(0)), rel=1e-5)


def test_it_learns_and_is_measured_on_held_out_data(classifier, flowers):
    rest = {name: value[150:] for name, value in flowers.items()}
    data = {name: value[:150] for name, value in flowers.items()}
    result = train(
        classifier, data, epochs=20, batch_size=32, optimizer=Adam(0.02), validation=rest
    )
    assert (result.steps, result.epoch, [step for step, _ in result.scores]) == (
        100,
        20,
        list(range(5, 101, 5)),
    )
    assert result.scores[-1][1] > 0.95
    y = pyopnb.run(result.model, x=rest["x"])["y"]
    assert result.scores[-1][1] == pytest.approx((y.argmax(1) == rest["kind"]).mean())
    assert repr(result).startswith(
        "100 steps, 20 of 20 epochs, training loss "
    ) and ", validation accuracy " in repr(result)


def test_a_seed_gives_the_same_steps_and_another_gives_others(classifier, flowers):
    runs = [train(classifier, flowers, epochs=2, seed=seed).losses for seed in (5, 5, 6)]
    assert np.array_equal(runs[0], runs[1]) and not np.array_equal(runs[0], runs[2])


def test_feeds_one_by_one_are_the_same_as_arrays_in_order(classifier, flowers):
    feeds = in_parts(flowers)
    whole = train(classifier, flowers, epochs=2, batch_size=40, seed=None)
    assert np.array_equal(train(classifier, feeds, epochs=2, seed=None).losses, whole.losses)
    once = train(classifier, (feed for feed in feeds), seed=None)
    assert np.array_equal(once.losses, whole.losses[:5])
    with pytest.raises(
        InputError,
        match=r"train, data: expected feeds that can be read once per epoch, got a generator",
    ):
        train(classifier, (feed for feed in feeds), epochs=2)


def test_a_function_as_metric_gets_outputs_and_feeds(line, samples):
    def worst(outputs, feeds):
        return float(np.abs(outputs["y"] - feeds["target"]).max())

    result = train(
        line,
        samples,
        loss="mse",
        validation=samples,
        metric=worst,
        batch_size=50,
        optimizer=SGD(1e-6),
    )
    assert result.metric == "worst" and result.scores[0][1] == pytest.approx(4, rel=1e-3)


def test_going_on_is_one_long_training(classifier, flowers):
    whole = train(classifier, flowers, epochs=5)
    parts = train(classifier, flowers, epochs=2)
    assert parts.resume(epochs=3) is parts
    assert_same(parts, whole)


def test_ctrl_c_ends_it_after_the_step(classifier, flowers):
    def feeds():
        for k in range(0, 200, 20):
            if k == 60:
                signal.raise_signal(signal.SIGINT)
            yield {name: value[k : k + 20] for name, value in flowers.items()}

    class Again:
        def __iter__(self):
            return feeds()

    before = signal.getsignal(signal.SIGINT)
    result = train(classifier, Again(), epochs=1)
    assert result.interrupted and result.steps == 4 and "interrupted" in repr(result)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_ctrl_c_ended_goes_on_to_the_same_weights(classifier, flowers):
    whole = train(classifier, flowers, epochs=3)
    pressed = []

    def press(outputs, feeds):
        if not pressed:
            pressed.append(signal.raise_signal(signal.SIGINT))
        return 0.0

    result = train(classifier, flowers, epochs=3, validation=flowers, metric=press)
    assert (
        result.interrupted and result.steps == 8
    )  # the first of the second epoch, in which it was seen
    result.resume()
    assert not result.interrupted
    assert_same(result, whole)


def test_a_thread_of_its_own_can_train(line, samples):
    found = []
    thread = threading.Thread(target=lambda: found.append(train(line, samples, loss="mse")))
    thread.start()
    thread.join()
    assert found[0].steps == 2


def test_a_training_goes_on_from_a_checkpoint(classifier, flowers, tmp_path):
    whole = train(classifier, flowers, epochs=3, checkpoint=tmp_path / "run.npz", every=5)
    train(classifier, flowers, epochs=2, checkpoint=tmp_path / "begun.npz", every=5)
    assert_same(train(classifier, flowers, epochs=3, resume=tmp_path / "begun.npz"), whole)
    again = train(classifier, flowers, epochs=3, checkpoint=tmp_path / "run.npz", resume=True)
    assert again.steps == 21
    assert_same(again, whole)


def test_what_killed_trainings_left_goes_when_another_begins(classifier, flowers, tmp_path):
    old = tmp_path / ".run[1].npz.abc.part"
    kept = [tmp_path / ".run[1].npz.new.part", tmp_path / ".other.npz.abc.part"]
    for path in [old, *kept]:
        path.touch()
    for path in [old, kept[1]]:
        os.utime(path, (1e9, 1e9))
    train(classifier, flowers, checkpoint=tmp_path / "run[1].npz")
    assert [path.exists() for path in [old, *kept]] == [False, True, True]


def test_a_checkpoint_is_no_folder(classifier, flowers, tmp_path):
    with pytest.raises(InputError, match=r"train, checkpoint: .*a file \.npz, got '.*all'"):
        train(classifier, flowers, checkpoint=tmp_path / "all")


def test_a_checkpoint_of_another_training_is_refused(classifier, flowers, line, samples, tmp_path):
    path = tmp_path / "run.npz"
    train(classifier, flowers, checkpoint=path)
    with pytest.raises(InputError, match=r"train, resume: optimizer: expected Adam\(.*got SGD\("):
        train(classifier, flowers, optimizer="sgd", resume=path)
    with pytest.raises(InputError, match=r"train, resume: seed: expected 0, got 3"):
        train(classifier, flowers, seed=3, resume=path)
    with pytest.raises(
        InputError,
        match=r"train, resume: expected a training of b1: float32\[8\], .*got b: float32\[1\], ",
    ):
        train(line, samples, loss="mse", resume=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"checkpoint .*: expected a file that train wrote, got "):
        train(classifier, flowers, resume=path)
    with pytest.raises(
        InputError,
        match=r"checkpoint .*none\.npz: expected a file that train wrote, got none",
    ):
        train(classifier, flowers, resume=tmp_path / "none.npz")
    with pytest.raises(
        InputError,
        match=r'train, resume: expected a checkpoint .*Try: checkpoint="run\.npz"',
    ):
        train(classifier, flowers, resume=True)


def bad(text, error=InputError, **changes):
    return pytest.param(changes, error, text, id=text[:40])


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        bad(r"train, loss: expected one of y, cross_entropy, mse, got 'entropy'", loss="entropy"),
        bad(
            r"loss 'y': expected one floating-point output .*\(y: float32\[N,3\]\)",
            ModelError,
            loss="y",
            drop="kind",
        ),
        bad(
            r"train, train: expected names of initializers .*, got 'w3'\. Try: w",
            ModelError,
            train=["w3"],
        ),
        bad(
            r"labels kind: expected int64\[N\], the number of each sample's class, got float32\[32\]",
            kind=np.zeros(200, "f"),
        ),
        bad(
            r"labels kind: expected a class from 0 to 2, got -1 in sample 7",
            kind=np.where(np.arange(200) == 7, -1, 0),
        ),
        bad(
            r"train, loss cross_entropy: expected one array .*the labels, got the model's inputs alone.*or loss=.* if that output is the loss itself",
            drop="kind",
        ),
        bad(r"feed x: expected float32\[N,4\], got float64\[32,4\]", x=np.zeros((200, 4))),
        bad(
            r"data: expected as many samples in each array, got x: 10, kind: 200",
            x=np.zeros((10, 4), "f"),
        ),
        bad(
            r"data: expected as many samples in each array, got x: 0, kind: 0",
            x=np.zeros((0, 4), "f"),
            kind=np.zeros(0, int),
        ),
        bad(r"train, epochs: expected a number from 1 on, got 0", epochs=0),
        bad(r"train, seed: expected a number from 0 on, got -1", seed=-1),
        bad(
            r"train, resume: expected a path, True or None, got int 3\. Try: resume=",
            InputError,
            resume=3,
        ),
        bad(r"train, metric: expected 'loss', 'accuracy'.*got 3", metric=3),
        bad(
            r"train, metric: expected 'loss', 'accuracy'.*got 'accuracy'",
            metric="accuracy",
            loss="mse",
            output="y",
            kind=np.zeros((200, 3), "f"),
        ),
        bad(
            r"data: expected a dict of arrays, .*, got ndarray",
            data=np.zeros(3),
        ),
    ],
)
def test_what_does_not_fit_is_said_before_the_first_step(changes, error, text, classifier, flowers):
    data = {name: changes.pop(name, value) for name, value in flowers.items()}
    data.pop(changes.pop("drop", ""), None)
    with pytest.raises(error, match=text):
        train(classifier, **{"data": data, **changes})


def test_a_later_feed_with_fewer_labels_than_samples(classifier, flowers):
    renamed = onnx.ModelProto()
    renamed.CopyFrom(classifier)
    for info in (*renamed.graph.input, *renamed.graph.output):
        info.type.tensor_type.shape.dim[0].dim_param = "batch"
    feeds = [flowers, {"x": flowers["x"][:5], "kind": flowers["kind"][:4]}]
    for model, symbol in ((classifier, "N"), (renamed, "batch")):
        with pytest.raises(
            InputError,
            match=rf"feed kind: expected int64\[{symbol}\], with one size for each symbol, got \[4\]",
        ):
            train(model, feeds)


def test_weights_in_a_file_beside_the_model(classifier, flowers, tmp_path):
    onnx.save(
        classifier,
        tmp_path / "model.onnx",
        save_as_external_data=True,
        size_threshold=0,
        location="weights.bin",
    )
    onnx.load_external_data_for_model(classifier, str(tmp_path))  # onnx.save took them out
    result, same = (train(model, flowers) for model in (tmp_path / "model.onnx", classifier))
    assert np.array_equal(result.losses, same.losses)
    assert result.model.SerializeToString(deterministic=True) == same.model.SerializeToString(
        deterministic=True
    )


def test_an_opset_too_old_for_the_loss_is_said_with_the_one_it_needs(
    classifier, flowers, line, samples
):
    for model, data, loss, opset in (
        (classifier, flowers, "cross_entropy", 16),
        (line, samples, "mse", 13),
    ):
        model.opset_import[0].version, model.ir_version = opset - 1, 7
        expected = rf"train, loss {loss}: expected a model of opset {opset} or newer, got opset {opset - 1}\. Try: onnx\.version"
        with pytest.raises(ModelError, match=expected):
            train(model, data, loss=loss)
        converted = onnx.version_converter.convert_version(model, opset)
        assert train(converted, data, loss=loss, batch_size=50).steps == len(data["x"]) // 50


def test_a_second_thread_is_refused_and_changes_nothing(classifier, flowers):
    feeds = in_parts(flowers)
    began, end = threading.Event(), threading.Event()

    class Waiting:
        def __iter__(self):
            for number, feed in enumerate(feeds):
                if number == 2 and training is not None:
                    began.set()
                    assert end.wait(60)
                yield feed

    training = None
    training = train(classifier, Waiting())
    thread = threading.Thread(target=training.resume, args=(2,))
    thread.start()
    assert began.wait(60)
    with pytest.raises(
        RunRefused,
        match="resume: expected a training that is not running, got one that is running, in another",
    ):
        training.resume(9)
    end.set()
    thread.join()
    whole = train(classifier, feeds, epochs=3)
    assert (training.epoch, training.epochs) == (3, 3) and np.array_equal(
        training.losses, whole.losses
    )
    assert training.resume(1).epoch == 4


def test_a_record_taken_meanwhile_is_of_one_step(classifier, flowers):
    training = train(classifier, flowers, batch_size=50)
    thread = threading.Thread(target=training.resume, args=(12,))
    thread.start()
    taken = [training.record]
    while thread.is_alive():
        taken.append(training.record)
    thread.join()
    assert all(len(each.losses) == len(each.norms) for each in taken)


def test_labels_of_another_rank_are_refused_for_mse(line, samples):
    with pytest.raises(
        InputError, match=r"labels target: expected float32\[N\], got float32\[32,1\]"
    ):
        train(line, {"x": samples["x"], "target": samples["target"][:, None]}, loss="mse")


def test_the_advice_for_labels_in_a_list_works(line, samples):
    target = samples["target"].tolist()
    with pytest.raises(InputError, match="labels target: expected float32") as raised:
        train(line, {"x": samples["x"], "target": target}, loss="mse")
    labels = eval("{" + raised.value.next + "}", {"np": np, "target": target})
    assert train(line, {"x": samples["x"], **labels}, loss="mse").steps


def test_a_fixed_number_of_samples_leaves_the_rest_of_an_epoch_out(line, samples):
    line.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 20
    line = pyopnb.model(
        list(line.graph.node),
        {"x": "float32[20]"},
        "y",
        initializers={t.name: t for t in line.graph.initializer},
    )
    with pytest.warns(UserWarning, match="each epoch leaves out another 10 of 50 samples"):
        assert train(line, samples, loss="mse", batch_size=20, epochs=2).steps == 4


def test_nan_in_the_loss_stops_and_names_step_and_node(line, samples):
    samples["target"][13] = np.nan
    with pytest.raises(
        NotFinite, match=r"train, step \d in epoch 1: expected a finite loss"
    ) as caught:
        train(line, samples, loss="mse", batch_size=10, optimizer=SGD(0.1))
    assert "it begins in the feed, target: " in str(caught.value)
    training = caught.value.training
    assert f"step {training.steps + 1} " in str(caught.value)
    assert np.isfinite(training.losses).all() and all(
        np.isfinite(value).all() for value in training.weights.values()
    )


@pytest.mark.parametrize(
    ("body", "x", "rate", "text"),
    [
        (
            "[the_root] root = Sqrt(p)  loss = ReduceMean<keepdims = 0>(root)",
            [4, 9],
            1.0,
            r"it begins in node the_root \(Sqrt\), root: .*2 NaN",
        ),
        (
            "loss = ReduceMean<keepdims = 0>(p)",
            [1e9, 1e9],
            1e30,
            r".*begins in the state, w: .*Try: a smaller learning rate",
        ),
    ],
)
def test_nan_of_a_node_and_a_weight_that_overflows_are_no_feed(body, x, rate, text):
    model = pyopnb.parse(
        f"(float[N] x) => (float loss) <float[1] w = {{1}}> {{ p = Mul(x, w)  {body} }}"
    )
    with pytest.raises(NotFinite, match=rf"step 2 in epoch 2: .*{text}"):
        train(
            model,
            {"x": np.float32(x)},
            loss="loss",
            optimizer=SGD(rate),
            epochs=5,
            batch_size=2,
        )


def test_the_curve_is_an_image_that_survives(classifier, flowers, tmp_path):
    result = train(classifier, flowers, epochs=2, validation=flowers)
    html = result._repr_html_()
    assert (
        html.count('src="data:image/svg+xml;base64,') == 2
        and "<script" not in html
        and repr(result) in html
    )
    assert len(html) < 60_000
    result.save(tmp_path / "curve.svg")
    svg = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert "validation accuracy" in svg and "loss" in svg
    assert pyopnb.show(result).title == repr(result)
    assert pyopnb.show(result, log=True).svg != svg == pyopnb.show(result, log=False).svg
    assert result.plot().axes


def test_an_op_of_ones_own_is_the_loss(line, samples):
    @pyopnb.pyop("demo::Squares")
    class Squares:
        def compute(self, y: "float32[N]", t: "float32[N]") -> "float32[]":
            return np.mean((y - t) ** 2, dtype=np.float32)

        def backward(self, inputs, outputs, grads):
            y, t = inputs
            dy = grads[0] * 2 * (y - t) / np.float32(y.size)
            return dy, -dy

    expected = train(line, samples, loss="mse", progress=False).losses
    node = pyopnb.node("demo::Squares", "y target", "loss")
    for loss in ("demo::Squares", Squares, node):
        losses = train(line, samples, loss=loss, progress=False).losses
        np.testing.assert_allclose(losses, expected, rtol=1e-6)


def words(view):
    return re.findall(r"<text[^>]*>([^<]*)", view.svg)


def test_the_diff_of_two_trainings(line, samples):
    a = train(line, samples, loss="mse", optimizer=SGD(0.01), epochs=2, progress=False)
    b = train(line, samples, loss="mse", optimizer=SGD(0.1), epochs=2, progress=False)
    shorter = train(line, samples, loss="mse", optimizer=SGD(0.01), progress=False)
    found = pyopnb.diff(a, b)
    assert (found.verdict, found.step, found.ok) == ("different", 2, False)
    assert "the losses differ from step 2 on" in str(found)
    assert "learning_rate=0.01" in str(found) and "learning_rate=0.1" in str(found)
    assert not found.weights.ok
    assert words(pyopnb.show(found))[-2:] == ["a: training", "b: training"]
    assert found._repr_html_().count("the losses differ from step 2 on") == 1
    assert type(found).from_json(found.to_json()) == found
    assert pyopnb.diff(a, a).verdict == "identical"
    assert "from step 3 on, or end there" in str(pyopnb.diff(a, shorter))
    with pytest.raises(InputError, match="diff, b: expected a training"):
        pyopnb.diff(a, 3)


def test_a_training_as_csv(line, samples, tmp_path):
    result = train(line, samples, loss="mse", validation=samples, progress=False)
    result.save(tmp_path / "run.csv")
    head, *rows = (tmp_path / "run.csv").read_text(encoding="utf-8").splitlines()
    assert head == "step,training_loss,gradient_norm,validation_loss"
    losses = [float(row.split(",")[1]) for row in rows]
    assert losses == result.losses.tolist()
    assert float(rows[-1].split(",")[3]) == result.scores[-1][1]


def test_what_is_trained_by_default():
    halves = ", ".join(
        f"float[2] {name} = {{0.5, 0.5}}" for name in ("gain", "bias", "mean", "var", "aside")
    )
    model = pyopnb.parse(f"""(float[N,2] x) => (float loss, float[N,2] side) <{halves}, float scale = {{2}}> {{
        s = Mul(x, scale)
        n = BatchNormalization(s, gain, bias, mean, var)
        side = Mul(n, aside)
        loss = ReduceMean<keepdims = 0>(n)
    }}""")
    data = {"x": np.ones((4, 2), np.float32)}
    assert set(train(model, data, loss="loss", batch_size=4).weights) == {"gain", "bias"}
    chosen = train(model, data, loss="loss", batch_size=4, train=["scale"], optimizer=SGD(0.1))
    assert chosen.weights["scale"] < 2
    left = {tensor.name: numpy_helper.to_array(tensor) for tensor in chosen.model.graph.initializer}
    assert all(left[name].tolist() == [0.5, 0.5] for name in left if name != "scale")


def test_names_of_the_model_that_ours_could_meet():
    model = pyopnb.parse("""(float[N] x) => (float loss) <float[1] "train/w" = {1}> {
        "train/constant_1" = Mul(x, "train/w")
        loss = ReduceMean<keepdims = 0>("train/constant_1")
    }""")
    result = train(model, {"x": np.float32([1, 1])}, loss="loss", optimizer=SGD(0.5), batch_size=2)
    assert result.weights["train/w"].tolist() == [0.5]
    onnx.checker.check_model(result.model)


# ---- a model with a fixed batch --------------------------------------------------------------------------------------------


def fixed_batch(rows: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    model = pyopnb.model(
        [pyopnb.node("MatMul", "x w", "y")],
        {"x": "float32[5,3]"},
        {"y": "float32[5,2]"},
        initializers={"w": np.zeros((3, 2), np.float32)},
    )
    generator = np.random.default_rng(0)
    data = {"x": generator.normal(size=(rows, 3)), "t": generator.normal(size=(rows, 2))}
    return model, {name: array.astype(np.float32) for name, array in data.items()}


@pytest.mark.parametrize(
    ("rows", "size", "refusal"),
    [
        (18, 32, "expected 5, as the model fixes for input x, got 18. Try: batch_size=5"),
        (18, 4, "expected 5, as the model fixes for input x, got 4. Try: batch_size=5"),
        (18, None, "expected 5, as the model fixes for input x, got 18. Try: batch_size=5"),
        (
            3,
            5,
            "expected 5, as the model fixes for input x, got 3 samples in all. "
            "Try: more samples, or a model with a free first dimension",
        ),
    ],
)
def test_a_batch_size_that_the_model_does_not_take(
    rows: int, size: int | None, refusal: str
) -> None:
    model, data = fixed_batch(rows)
    with pytest.raises(InputError, match=f"^data, batch_size: {re.escape(refusal)}$"):
        train(model, data, loss="mse", batch_size=size)


def test_samples_that_no_fixed_batch_takes_are_told() -> None:
    model, data = fixed_batch(18)
    left = "each epoch leaves out {} 3 of 18 samples, as the model fixes 5 for input x"
    for seed, which in ((0, "another"), (None, "the last")):
        with pytest.warns(UserWarning, match=f"^data: {left.format(which)}$"):
            assert train(model, data, loss="mse", batch_size=5, seed=seed).steps == 3
    whole = {name: array[:15] for name, array in data.items()}
    with pytest.warns(UserWarning, match=f"^validation: {left.format('the last')}$"):
        train(model, whole, loss="mse", batch_size=5, validation=data)
    assert train(model, whole, loss="mse", batch_size=5).steps == 3


def test_labels_that_lack_an_axis_are_not_cast() -> None:
    model = pyopnb.model(
        [pyopnb.node("MatMul", "x w", "y")], {"x": "float32[N,3]"}, {"y": "float32[N,1]"},
        initializers={"w": np.zeros((3, 1), np.float32)},
    )  # fmt: skip
    x = np.ones((4, 3), np.float32)
    with pytest.raises(InputError, match=r'got float32\[4\]. Try: "t": t\[:, None\]$'):
        train(model, {"x": x, "t": np.ones(4, np.float32)}, loss="mse")
    with pytest.raises(
        InputError, match=r'got float64\[4,1\]. Try: "t": np.asarray\(t, np.float32\)$'
    ):
        train(model, {"x": x, "t": np.ones((4, 1))}, loss="mse")
    with pytest.raises(InputError, match=r"got float32\[4,2\]\.$"):
        train(model, {"x": x, "t": np.ones((4, 2), np.float32)}, loss="mse")


def resized(batch: int | str) -> onnx.ModelProto:
    nodes = [
        pyopnb.node("Conv", "x w", "c", pads=[1] * 4),
        pyopnb.node("Resize", ["c", "", "scales"], "y", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ]  # fmt: skip
    weights = {"w": np.full((1, 1, 3, 3), 0.1, np.float32), "scales": np.float32([1, 1, 2, 2])}
    return pyopnb.model(
        nodes,
        {"x": f"float32[{batch},1,4,4]"},
        {"y": f"float32[{batch},1,8,8]"},
        initializers=weights,
    )


def test_the_scales_of_a_resize_are_no_weights() -> None:
    generator = np.random.default_rng(0)
    data = {"x": generator.normal(size=(10, 1, 4, 4)), "t": generator.normal(size=(10, 1, 8, 8))}
    data = {name: array.astype(np.float32) for name, array in data.items()}
    assert [*train(resized(5), data, loss="mse", batch_size=5).weights] == ["w"]
    # What the message advises can be typed as it stands.
    model = resized("N")
    with pytest.raises(ModelError, match="Try: fixed sizes: ") as caught:
        train(model, data, loss="mse", batch_size=5)
    assert "needs declared shapes" in str(caught.value)
    assert str(caught.value.next).endswith('make_input_shape_fixed(model.graph, "x", [1, 1, 4, 4])')
    onnxruntime.tools.onnx_model_utils.make_input_shape_fixed(model.graph, "x", [1, 1, 4, 4])
    assert train(model, data, loss="mse", batch_size=1).steps == 10


def test_small_losses_are_kept_after_a_huge_one() -> None:
    losses = [1e20, *np.linspace(2, 1, 99)]
    record = TrainingRecord("SGD()", "loss", tuple(losses))
    for count in (1, 2, 3, 7, 50, 100, 200):
        means = record.means(count)
        assert list(means) == [*range(count, 100, count), 100]
        blocks = [losses[begin : begin + count] for begin in range(0, 100, count)]
        np.testing.assert_allclose(list(means.values()), [np.mean(b) for b in blocks], rtol=1e-12)
    infinite = TrainingRecord("SGD()", "loss", (np.inf, 2.0, 4.0, np.nan, 1.0))
    np.testing.assert_array_equal(list(infinite.means(2).values()), [np.inf, np.nan, 1])
    assert TrainingRecord("SGD()", "loss", ()).means(3) == {}
