"""Capture a module as a program of torch.

Calls that cannot come out right are refused, with the user's line.
"""

from __future__ import annotations

import functools
import inspect
import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_map, tree_structure

from pyopnb.common import sanitize
from pyopnb.errors import ModelError
from pyopnb.torch.calls import arguments_of
from pyopnb.torch.example import Example, check_runs, first_line, line_of_error
from pyopnb.torch.foreign import is_foreign
from pyopnb.torch.recurrent import OpenSequences, as_torch
from pyopnb.torch.sizes import fixed_by_torch
from pyopnb.torch.source import line_in, line_of

__all__ = [
    "calls_in",
    "capture",
    "check_buffers",
    "fake_mode_of",
    "is_random",
    "quiet",
    "runs_foreign_code",
    "where_of",
]

_OPAQUE = (
    'write that part as a class with compute, @pyopnb.pyop("demo::Part"), '
    'and call pyopnb.torch.op("demo::Part")'
)
_LOGGERS = (
    "onnxscript.optimizer._constant_folding",
    "torch.onnx._internal.exporter._registration",
    "torch._export.non_strict_utils",
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.symbolic_shapes",
)
# A part in torch takes the place of a longer loop.
_MOST_TURNS = 500

_WITHOUT_VALUES = (
    "torch ops that need no values to be captured",
    "{}, which torch cannot capture without the values",
    _OPAQUE,
)

# Words in the torch error; the expected, the finding, and the advice of our message.
_REFUSALS = (
    (
        ".numpy() is not supported",
        "torch ops, which follow the arguments",
        "NumPy: torch.export cannot follow it",
        _OPAQUE,
    ),
    (
        "Cannot access data pointer",
        "torch ops",
        "code that reads the memory of a tensor, as functions in C++ do",
        "torch.library.custom_op of it, with register_fake",
    ),
    ("DynamicOutputShapeException", *_WITHOUT_VALUES),
    ("DataDependentOutputException", *_WITHOUT_VALUES),
    (
        "__obj_flatten__",
        "tensors as weights",
        "weights that torch has packed for its own kernels",
        "export the module first, and quantize the model in ONNX Runtime",
    ),
    (
        # Ops in C++ usually have no fake function.
        "UnsupportedOperatorException",
        "ops whose sizes torch knows",
        "{}, of whose results torch does not know the sizes",
        "torch.library.register_fake for it",
    ),
)

# Words in a line that uses the values of a tensor, and the advice instead.
# The torch advice is a page on its symbolic shapes.
_DECIDED_BY_VALUES = (
    (r"`(el)?if\b", "a branch that depends on values of a tensor", "torch.cond, or torch.where"),
    (
        "`while",
        "a loop whose end depends on values of a tensor",
        "torch.while_loop, or a fixed number of turns",
    ),
    (
        r"\b(float|int|bool)\(|\.item\(|\.tolist\(",
        "a Python number made of a tensor",
        "leave it a tensor: x.sum() for float(x.sum())",
    ),
    ("", "a value of a tensor as a Python number", "torch.cond, or torch.where"),
)
_SPECIALIZED = re.compile(r"specialized it to be a constant \((\d+)\)")
_WORDS_ABOUT_SIZES = (
    "dynamic_shapes",
    "Constraints violated",
    "dynamic shape",
    "user-specified ranges",
)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the warnings and logs of torch and onnxscript about their own code.

    The user's warnings stay.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(_is_news)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            # One name for two dimensions is correct.
            warnings.filterwarnings("ignore", message="# The axis name")
            # An RNN also keeps its weights in a list, which torch writes again for the capture.
            warnings.filterwarnings("ignore", message="The tensor attributes? self.*_flat_weights")
            # A capture that only looks for a line warns of this for every RNN.
            warnings.filterwarnings(
                "ignore", message="While compiling, we found certain side effects"
            )
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Drop log records about an error that is also raised, or about no error at all."""
    text = str(record.msg)
    is_raised_too = text.startswith(("failed while attempting to run meta", "Unable to find user"))
    # The warning of the export names a size of 0 or 1 that torch has fixed.
    usual = (
        "Skipping constant folding",
        "Evaluation failed",
        "torchvision is not installed",
        "0/1 specialized",
    )
    return not is_raised_too and not any(words in text for words in usual)


@contextmanager
def _without_partial_graph() -> Iterator[None]:
    """Drop the graph that torch prints when a capture fails.

    Everything else that is printed follows after it.
    """
    printed = io.StringIO()
    graph = None
    try:
        with redirect_stderr(printed):
            yield
    except Exception as error:
        graph = getattr(error, "partial_fx_graph", None)
        raise
    finally:
        text = printed.getvalue()
        if graph is not None:
            text = text.replace(f"{graph}\n", "")
        sys.stderr.write(text)


_HINTS = {
    torch.nn.TransformerEncoder: "is_causal",
    torch.nn.TransformerDecoder: "tgt_is_causal",
}
"""The way to tell a module that its mask hides later positions.

Without it, the module looks at the mask's values.
"""


@contextmanager
def _masks_as_given(module: Any) -> Iterator[None]:
    """Let transformers use a mask as it is given: whether it is a causal one changes no number."""
    with ExitStack() as hooks:
        for part in module.modules():
            hint = _HINTS.get(type(part))
            if hint is not None:
                hook = functools.partial(_with_hint, hint)
                handle = part.register_forward_pre_hook(hook, with_kwargs=True)
                hooks.callback(handle.remove)
        yield


def _with_hint(hint: str, part: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    arguments = inspect.signature(part.forward).bind(*args, **kwargs)
    if arguments.arguments.get(hint) is None:
        arguments.arguments[hint] = False
    return arguments.args, arguments.kwargs


def capture(example: Example, *, any_numbers: bool = False) -> Any:
    """Capture a module as a program, by `torch.export.export`.

    Parameters
    ----------
    any_numbers : bool
        Take a module that draws random numbers.

    Returns
    -------
    torch.export.ExportedProgram

    Raises
    ------
    ModelError
        The module does something that torch cannot capture, or that no ONNX model can do.
    """
    try:
        turns = None if any_numbers else _MOST_TURNS
        program = _traced(example, _without_name, turns)
    except Exception as error:  # exceptions of forward, and many of torch
        # The commonest reason is an example that forward does not take.
        check_runs(example)
        program, line = None, ""
        if example.dynamic_shapes is not None and _SPECIALIZED.search(str(error)):
            program, line = _capture_strictly(example)
        if program is None:
            # The torch traceback has hundreds of lines, and stays in __context__ for readers who
            # want it.
            raise _not_captured(example, error, line) from None
    as_torch(calls_in(program))
    for node in calls_in(program):
        if is_random(node) and not any_numbers:
            raise ModelError(
                where_of(node),
                expected="the same numbers each time",
                got="random numbers",
                next="draw the numbers outside, and give them as an input",
            )
    _check_inputs_and_outputs(program, example.where)
    _write_caches_as_dicts(program)
    _write_numbers_as_tensors(program, example.where)
    return program


def _write_numbers_as_tensors(program: Any, where: str) -> None:
    """Let a program return tensors in place of Python numbers, which the exporter cannot name."""
    graph, specs = program.graph_module.graph, program.graph_signature.output_specs
    mode = fake_mode_of(program)
    output = graph.output_node()
    results = list(output.args[0])
    for position, result in enumerate(results):
        if not isinstance(result, (bool, int, float)) or mode is None:
            continue
        dtype = torch.tensor(result).dtype
        with graph.inserting_before(output):
            call = torch.ops.aten.scalar_tensor.default
            results[position] = graph.call_function(call, (result,), {"dtype": dtype})
        with mode:
            results[position].meta["val"] = torch.empty((), dtype=dtype)
        specs[position].arg = torch.export.graph_signature.TensorArgument(results[position].name)
    output.args = (tuple(results),)
    if not any(isinstance(result, torch.fx.Node) for result in results):
        raise ModelError(where, expected="a forward that returns tensors", got="none")


def _write_caches_as_dicts(program: Any) -> None:
    """Let a program take dicts, and return a list, in place of the caches of transformers.

    The exporter captures a program again, and making a cache of tensors has constants of its own,
    which it then misses (torch 2.13, transformers 5.24).
    """
    signature = program.module_call_graph[0].signature
    args, kwargs = program.example_inputs
    inputs = tuple(map(_as_dicts, args)), _as_dicts(dict(kwargs))
    signature.in_spec = tree_structure(inputs)
    results = [None] * signature.out_spec.num_leaves
    signature.out_spec = tree_structure(results)
    program.example_inputs = inputs


def _as_dicts(value: Any) -> Any:
    """Write objects that are registered as trees with names as dicts.

    Their paths in the torch guards are the same.
    """
    if type(value) in (list, tuple):
        return type(value)(map(_as_dicts, value))
    if type(value) is dict:
        return {name: _as_dicts(item) for name, item in value.items()}
    children, _ = tree_flatten_with_path(value, is_leaf=lambda item: item is not value)
    names = [getattr(path[0], "key", None) for path, _ in children if path]
    if not names or not all(isinstance(name, str) for name in names):
        return value
    return {name: child for name, (_, child) in zip(names, children, strict=True)}


# ---- calls ---------------------------------------------------------------------------------------


def calls_in(program: Any) -> Iterator[Any]:
    """Yield the calls of a program, including calls in bodies of control flow.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    """
    yield from _calls(program.graph_module)


def _calls(graph_module: Any) -> Iterator[Any]:
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        yield node
        for entry in node.all_input_nodes:
            if entry.op != "get_attr":
                continue
            # The bodies of torch.cond and of loops are attributes of the module around them.
            body = getattr(graph_module, str(entry.target), None)
            if isinstance(body, torch.fx.GraphModule):
                yield from _calls(body)


def fake_mode_of(program: Any) -> Any:
    """Return the mode in which a program was captured; None where it has no tensors."""
    for node in program.graph_module.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if mode is not None:
            return mode
    return None


def where_of(node: Any) -> str:
    """Name a call as messages do: its line and its op."""
    line, target = line_of(node), sanitize(str(node.target))
    if line:
        return f"{line}, {target}"
    return target


def runs_foreign_code(program: Any) -> bool:
    """Tell whether a program calls ops that belong to neither torch nor pyopnb.

    They may be C++ that reads its inputs without checks: integers that are not in range, or
    float64 where it was written for float32, can end the process.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    """
    return any(is_foreign(node.target) for node in calls_in(program))


def is_random(node: Any) -> bool:
    """Tell whether a call draws random numbers; dropout that does not train draws none."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    # The tag is on ops that may draw, as dropout and attention do.
    values = {parameter.name: value for parameter, value in arguments_of(node)}
    trains = values.get("train", values.get("training"))
    return trains is not False and values.get("dropout_p") != 0


# ---- sizes ---------------------------------------------------------------------------------------


def _traced(
    example: Example, rewrite: Callable[[Any], Any], turns: int | None = None, strict: bool = False
) -> Any:
    """Call `torch.export.export` with each dimension rewritten."""
    module, args, kwargs = example.module, example.args, example.kwargs
    options = {"dynamic_shapes": tree_map(rewrite, example.dynamic_shapes), "strict": strict}
    with (
        quiet(),
        _without_partial_graph(),
        OpenSequences(module, turns),
        _masks_as_given(module),
    ):
        return torch.export.export(module, args, kwargs, **options)


def _without_name(dim: Any) -> Any:
    """Write a dimension as `torch.export.export` takes it: it has no names."""
    return torch.export.Dim.DYNAMIC if isinstance(dim, str) else dim


def _decided_by_torch(dim: Any) -> Any:
    return dim if dim is None or isinstance(dim, int) else torch.export.Dim.AUTO


def _capture_strictly(example: Example) -> tuple[Any, str]:
    """Capture a module in the strict mode of torch, which reads the bytecode of forward.

    It follows a size through ``len(x)`` and ``int(x.shape[0])``, which fix it in the usual mode.

    Returns
    -------
    program : torch.export.ExportedProgram or None
        None where that also fixes a size.
    line : str
        The line at which it does, which the usual mode does not keep.
    """
    try:
        program = _traced(example, _decided_by_torch, strict=True)
    except Exception:  # many of torch's own; the message has no line then
        return None, ""
    if not fixed_by_torch(program, program.graph_signature.user_inputs, example.requests):
        return program, ""
    stacks = getattr(getattr(fake_mode_of(program), "shape_env", None), "specialization_stacks", {})
    for stack in stacks.values():
        line = line_in([(frame.filename, frame.lineno) for frame in stack])
        if line:
            return None, line
    return None, ""


def _size_refused(example: Example, error: Exception, line: str) -> ModelError:
    """Make the error for a dimension that was to be open and that forward does not let change."""
    where, expected = f"{example.where}, dynamic_shapes", "sizes that forward lets change"
    for tensor, request in zip(example.tensors, example.requests, strict=True):
        for axis in request:
            if tensor.shape[axis] == 1:
                # Torch takes a size of 1 for a constant, as it broadcasts.
                got = f"an example with size 1 along axis {axis}, which torch takes for fixed"
                suggestion = "an example with 2 or more there"
                return ModelError(where, expected=expected, got=got, next=suggestion)
    text = str(error)
    fixed = _SPECIALIZED.search(text)
    if fixed is not None:
        got = f"a forward that takes only {fixed[1]} there, as a loop over the dimension does"
        suggestion = "leave it out of dynamic_shapes, which fixes the size"
        if line:
            got = f"{line}, which takes only {fixed[1]} there"
        if re.search(r"\b(reshape|view|expand)\(", line):
            suggestion = f"-1 in the place of {fixed[1]} in that line, or x.shape[…]"
        return ModelError(where, expected=expected, got=got, next=suggestion)
    got = first_line(error)
    for detail in text.splitlines()[1:]:
        if detail.lstrip().startswith("-"):
            got = f"{got} {detail.strip(' -')}"
            break
    suggestion = "one entry per argument, as ({0: 'batch'}, None); leave out what cannot change"
    return ModelError(where, expected=expected, got=sanitize(got, 400), next=suggestion)


# ---- refusals of torch ---------------------------------------------------------------------------


def _not_captured(example: Example, error: Exception, fixing_line: str) -> ModelError:
    """Make the error for a module that `torch.export.export` refuses."""
    text, name = str(error), type(error).__name__
    about_sizes = any(word in text for word in _WORDS_ABOUT_SIZES)
    if example.dynamic_shapes is not None and (about_sizes or name == "ConstraintViolationError"):
        return _size_refused(example, error, fixing_line)
    line = line_of_error(error)
    where = f"{example.where}, {line}" if line else example.where
    if _has_packed_sequence(error):
        expected, got = "padded sequences", "a packed sequence, whose sizes depend on values"
        suggestion = "the padded sequence, and a mask from its lengths"
        return ModelError(where, expected=expected, got=got, next=suggestion)
    for words, expected, got, suggestion in _REFUSALS:
        if words in f"{name}: {text}":
            got = sanitize(got.format(text))
            return ModelError(where, expected=expected, got=got, next=suggestion)
    if "data-dependent" in text:
        expected = "control flow that does not depend on values"
        for pattern, got, suggestion in _DECIDED_BY_VALUES:
            if re.search(pattern, line):
                return ModelError(where, expected=expected, got=got, next=suggestion)
    return ModelError(
        where,
        expected="a forward that torch.export.export takes",
        got=sanitize(first_line(error), 600),
        next="torch.export.export(module, args), whose own error says more",
    )


def _has_packed_sequence(error: Exception) -> bool:
    """Tell whether an error came up while a packed sequence was at work."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        values = frame.f_locals.values()
        if any(isinstance(value, torch.nn.utils.rnn.PackedSequence) for value in values):
            return True
    return False


# ---- calls that no model can do ------------------------------------------------------------------


def check_buffers(program: Any, decomposed: Any, where: str) -> None:
    """Refuse a module whose forward changes its own buffers.

    The model would be right in its first run only.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    decomposed : torch.export.ExportedProgram
        The same without operations in place.
    where : str
        The module, for the error.

    Raises
    ------
    ModelError
    """
    changed = list(decomposed.graph_signature.buffers_to_mutate.values())
    if not changed:
        return
    name = changed[0]
    inputs = set()
    for input_name, buffer in program.graph_signature.inputs_to_buffers.items():
        if buffer == name:
            inputs.add(input_name)
    for node in calls_in(program):
        schema = getattr(node.target, "_schema", None)
        writes = getattr(schema, "is_mutable", False)
        if writes and node.all_input_nodes[0].name in inputs:
            where = line_of(node) or where
            break
    raise ModelError(
        f"{where}, buffer {name}",
        expected="a forward that does not change its module",
        got=f"one that writes to {name}",
        next="take it as an argument, and return its new value",
    )


def _check_inputs_and_outputs(program: Any, where: str) -> None:
    """Refuse complex, quantized and sparse tensors that go in or come out."""
    nodes = {node.name: node for node in program.graph_module.graph.nodes}
    for name in program.graph_signature.user_inputs:
        _check_tensor(nodes.get(name), f"input {name}", where)
    for number, name in enumerate(program.graph_signature.user_outputs):
        _check_tensor(nodes.get(name), f"output {number}", where)


def _check_tensor(node: Any, name: str, where: str) -> None:
    value = None if node is None else node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return
    where = f"{line_of(node) or where}, {sanitize(name)}"
    if value.is_complex():
        expected = "real numbers, as ONNX Runtime takes no others"
        suggestion = "torch.view_as_real, or torch.view_as_complex"
        raise ModelError(where, expected=expected, got=str(value.dtype), next=suggestion)
    if value.is_quantized or value.layout is not torch.strided:
        got, suggestion = f"{value.dtype}, {value.layout}", "x.dequantize() or x.to_dense()"
        raise ModelError(where, expected="a dense tensor", got=got, next=suggestion)
