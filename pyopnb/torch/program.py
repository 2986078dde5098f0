"""A module as a program of torch's: what cannot come out right is refused here, with the user's line."""

from __future__ import annotations

import inspect
import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import torch

from pyopnb.errors import InputError, ModelError
from pyopnb.ops.messages import sanitize
from pyopnb.torch.calls import arguments_of
from pyopnb.torch.exporter_internals import LOGGER
from pyopnb.torch.sizes import requested_dimensions
from pyopnb.torch.source import line_in, line_of

__all__ = [
    "OPAQUE",
    "bound_arguments",
    "calls_in",
    "capture",
    "check_buffers",
    "check_example",
    "check_runs",
    "clone_aliased",
    "example_tensors",
    "in_order",
    "is_random",
    "quiet",
    "refuse_dynamic_axes",
    "where_of",
]


OPAQUE = 'write that part as a class with compute, @pyopnb.pyop("demo::Part"), and call pyopnb.torch.op("demo::Part")'
"""What to type where forward leaves torch."""
_ON_META = "one on the device meta"


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch and onnxscript warn of in their own code, and log; the user's warnings stay."""
    with _without_logs(), warnings.catch_warnings():
        for category in (FutureWarning, DeprecationWarning):
            warnings.filterwarnings("ignore", category=category)
        warnings.filterwarnings(
            "ignore", message="# The axis name"
        )  # one name for two dimensions is as it should be
        yield


@contextmanager
def _without_logs() -> Iterator[None]:
    def other(record: logging.LogRecord) -> bool:
        said = str(record.msg)
        return not ("torchvision is not installed" in said or said.startswith(_ALSO_RAISED))

    loggers = logging.getLogger(LOGGER), logging.getLogger("torch._subclasses.fake_tensor")
    for logger in loggers:
        logger.addFilter(other)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(other)


_ALSO_RAISED = "failed while attempting to run meta"
"""A page of log for an error that is raised as well."""


def capture(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *,
    any_numbers: bool = False,
) -> Any:
    """A module as a program, by `torch.export.export`.

    Parameters
    ----------
    module : torch.nn.Module
    args : tuple
    kwargs : mapping, optional
    dynamic_shapes : optional
        As for `torch.export.export`; names may stand for dimensions.
    any_numbers : bool
        Take a module that trains, holds NaN or draws random numbers.

    Returns
    -------
    torch.export.ExportedProgram

    Raises
    ------
    InputError
        What was given is no module, or no tuple of arguments.
    ModelError
        The module trains, has no values, or does what no ONNX model can do.
    """
    check_example(module, args, kwargs, any_numbers)
    where = f"module {sanitize(type(module).__name__)}"
    args, kwargs = clone_aliased(args, in_order(module, kwargs))
    _check_sizes(dynamic_shapes, module, args, kwargs)
    try:
        with quiet():
            program = torch.export.export(
                module, args, kwargs, dynamic_shapes=_unnamed(dynamic_shapes)
            )
    except Exception as error:  # what forward raises, and many of torch's own
        check_runs(module, args, kwargs)
        raise _not_captured(
            where, error, dynamic_shapes, bound_arguments(module, args, kwargs)
        ) from error
    _check_program(program, where, any_numbers)
    return program


def check_example(
    module: Any, args: Any, kwargs: Mapping[str, Any] | None, any_numbers: bool = False
) -> None:
    """Refuse what is no module with values in evaluation mode, and arguments that are no tuple.

    Parameters
    ----------
    module : torch.nn.Module
    args : tuple
    kwargs : mapping, optional
    any_numbers : bool
        As for `capture`.

    Raises
    ------
    InputError, ModelError
    """
    _check_module(module, any_numbers)
    if not isinstance(args, tuple):
        given = (
            f"{type(args).__name__} of {len(args)}"
            if isinstance(args, list)
            else type(args).__name__
        )
        raise InputError(
            "args", expected="a tuple of the module's arguments", got=given, next="(x,)"
        )
    _check_arguments(module, args, kwargs)
    for place, tensor in enumerate(example_tensors(args, kwargs)):
        if tensor.is_meta:
            raise ModelError(
                f"args, tensor {place}",
                expected="a tensor with values",
                got=_ON_META,
                next="torch.randn(…)",
            )


def check_runs(module: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments for which the module does not run in torch itself; to be asked when something else has failed.

    Parameters
    ----------
    module : torch.nn.Module
        It runs on copies of its weights and buffers.
    args, kwargs
        Its arguments.

    Raises
    ------
    ModelError
    """
    held = {
        name: tensor.detach().clone()
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
    }
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were given in the attempt that has failed
            torch.func.functional_call(module, held, *_copied(args, kwargs))
    except Exception as error:  # of forward, whatever it is
        line = _line_of_error(error)
        where = f"module {sanitize(type(module).__name__)}{f', {line}' if line else ''}"
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "no text")
        got = f"{type(error).__name__}: {said.removesuffix('.')}, of {_described(module, args, kwargs)}"
        next_ = "an example for which module(*args) runs in torch"
        raise ModelError(
            where, expected="arguments that forward takes", got=sanitize(got, 600), next=next_
        ) from error


def in_order(module: Any, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Keyword arguments in the order of forward's parameters, which is that of a program's inputs."""
    given = dict(kwargs or {})
    known = [name for name in inspect.signature(module.forward).parameters if name in given]
    return {name: given[name] for name in [*known, *given]}


def bound_arguments(module: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Bind an example to the parameters of forward."""
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)


def clone_aliased(args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Clone a tensor that is given twice: torch would take the two for one in every later call.

    Parameters
    ----------
    args : tuple
    kwargs : mapping

    Returns
    -------
    args : tuple
    kwargs : dict
    """
    seen: set[int] = set()

    def cloned(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        is_repeated = id(leaf) in seen
        seen.add(id(leaf))
        return leaf.detach().clone() if is_repeated else leaf

    pair: tuple[Any, Any] = torch.utils._pytree.tree_map(cloned, (args, dict(kwargs)))
    return pair


def example_tensors(args: Any, kwargs: Mapping[str, Any] | None) -> list[Any]:
    """The tensors among the arguments, in the order of a program's inputs."""
    leaves = torch.utils._pytree.tree_leaves((args, dict(kwargs or {})))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def calls_in(program: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The calls of a program, those in bodies of control flow included.

    Parameters
    ----------
    program : torch.export.ExportedProgram

    Yields
    ------
    node : torch.fx.Node
    around : tuple of torch.fx.Node
        The calls in whose bodies it is, the innermost first.
    """
    yield from _calls(program.graph_module, ())


def _calls(graph_module: Any, around: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        yield node, around
        for entry in node.all_input_nodes:
            body = (
                getattr(graph_module, str(entry.target), None) if entry.op == "get_attr" else None
            )
            if isinstance(body, torch.fx.GraphModule):
                yield from _calls(body, (node, *around))


def where_of(node: Any, around: tuple[Any, ...]) -> str:
    """A call as messages name it."""
    line = line_of(node, *around)
    return f"{line}, {sanitize(str(node.target))}" if line else sanitize(str(node.target))


# ---- the example -------------------------------------------------------------------------------------------------------------


def _check_arguments(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> None:
    """Refuse arguments that forward has no parameters for, and arrays, which torch takes for none of its own."""
    if kwargs is not None and not (
        isinstance(kwargs, Mapping) and all(isinstance(name, str) for name in kwargs)
    ):
        got, next_ = sanitize(type(kwargs).__name__), "{'x': x}"
        if isinstance(kwargs, (str, os.PathLike)):  # the third argument of torch.onnx.export
            got = f"the file {sanitize(repr(kwargs))}"
            next_ = f"pyopnb.save(pyopnb.torch.export(module, args), {str(kwargs)!r})"
        expected = "a dict of parameter names and arguments"
        raise InputError("kwargs", expected=expected, got=got, next=sanitize(next_))
    signature = inspect.signature(module.forward)
    try:
        given = signature.bind(*args, **(kwargs or {})).arguments
    except TypeError as error:
        plain = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
        needed = [
            name
            for name, each in signature.parameters.items()
            if each.kind in _PLACED and each.default is each.empty
        ]
        keywords = f" and {', '.join(kwargs)}" if kwargs else ""
        got, next_ = (
            f"{len(args)} in args{keywords}: {error}",
            f"({', '.join(needed)}{',' * (len(needed) == 1)})",
        )
        expected = f"the arguments of forward{signature.replace(parameters=plain, return_annotation=signature.empty)}"
        raise InputError(
            "args", expected=sanitize(expected), got=sanitize(got), next=sanitize(next_)
        ) from None
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            next_ = f"torch.from_numpy({sanitize(name)})"
            raise InputError(
                f"args, {sanitize(name)}",
                expected="a torch.Tensor",
                got="numpy.ndarray",
                next=next_,
            )


_PLACED = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def _copied(args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    def copied(leaf: Any) -> Any:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    pair: tuple[Any, Any] = torch.utils._pytree.tree_map(copied, (args, dict(kwargs)))
    return pair


def _described(module: Any, args: Any, kwargs: Mapping[str, Any]) -> str:
    """``x float32[2,4], y int64[3]``: the tensors of an example."""
    given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    tensors = [
        f"{name} {str(leaf.dtype).removeprefix('torch.')}[{','.join(map(str, leaf.shape))}]"
        for name, value in given.items()
        for leaf in torch.utils._pytree.tree_leaves(value)
        if isinstance(leaf, torch.Tensor)
    ]
    return ", ".join(tensors) or "no tensor"


# ---- the module --------------------------------------------------------------------------------------------------------------


def _check_module(module: Any, any_numbers: bool) -> None:
    if not isinstance(module, torch.nn.Module):
        got = f"class {module.__name__}" if isinstance(module, type) else type(module).__name__
        next_ = f"{module.__name__}().eval()" if isinstance(module, type) else None
        raise InputError("module", expected="a torch.nn.Module", got=sanitize(got), next=next_)
    where = f"module {sanitize(type(module).__name__)}"
    for name, part in module.named_modules():
        if part.training and not any_numbers:
            got = f"training mode{f' in {sanitize(name)}' if name else ''}"
            raise ModelError(where, expected="evaluation mode", got=got, next="module.eval()")
    for kind, tensors in (
        ("parameter", module.named_parameters()),
        ("buffer", module.named_buffers()),
    ):
        for name, tensor in tensors:
            _check_weights(tensor, f"{where}, {kind} {sanitize(name)}", any_numbers)


def _check_weights(tensor: Any, where: str, any_numbers: bool) -> None:
    if torch.nn.parameter.is_lazy(tensor):
        next_ = "module(*args) once, which gives the lazy layers their sizes"
        raise ModelError(
            where,
            expected="a tensor with values",
            got="one of a lazy layer, not initialised",
            next=next_,
        )
    next_ = "load the weights: module.load_state_dict(…)"
    if tensor.is_meta:
        raise ModelError(where, expected="a tensor with values", got=_ON_META, next=next_)
    if any_numbers or not tensor.is_floating_point():
        return
    if count := int(torch.isnan(tensor.detach().float()).sum()):
        got = f"NaN in {count} of {tensor.numel()}"
        raise ModelError(where, expected="numbers", got=got, next=f"{next_}, or torch.nan_to_num")


def refuse_dynamic_axes(dynamic_axes: Any) -> NoReturn:
    """Refuse the argument of the older exporter, with what to type instead.

    Raises
    ------
    InputError
    """
    next_ = "dynamic_shapes={'x': {0: 'batch'}}"
    if isinstance(dynamic_axes, Mapping):
        entries = {
            name: axes if isinstance(axes, Mapping) else dict.fromkeys(axes, "n")
            for name, axes in dynamic_axes.items()
        }
        next_ = f"dynamic_shapes={entries!r}, of inputs only, under forward's own names"
    raise InputError(
        "dynamic_axes", expected="dynamic_shapes", got="dynamic_axes", next=sanitize(next_)
    )


def _unnamed(dynamic_shapes: Any) -> Any:
    """Dimensions as `torch.export.export` takes them: it has no names."""
    if isinstance(dynamic_shapes, str):
        return torch.export.Dim.DYNAMIC
    if isinstance(dynamic_shapes, Mapping):
        return {name: _unnamed(entry) for name, entry in dynamic_shapes.items()}
    if isinstance(dynamic_shapes, (list, tuple)):
        return type(dynamic_shapes)(_unnamed(entry) for entry in dynamic_shapes)
    return dynamic_shapes


def _check_sizes(dynamic_shapes: Any, module: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    """Refuse dimensions that a tensor does not have; torch says nothing of them, or not where."""
    if dynamic_shapes is None:
        return
    if not isinstance(dynamic_shapes, (Mapping, tuple, list)):
        got = sanitize(repr(dynamic_shapes), 100)
        raise InputError(
            "dynamic_shapes", expected="an entry for each argument", got=got, next="({0: 'batch'},)"
        )
    try:
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError:  # arguments that forward does not take, of which torch tells
        return
    if isinstance(dynamic_shapes, Mapping):
        pairs = [(name, dynamic_shapes.get(name), value) for name, value in given.items()]
    else:
        flat = [*args, *kwargs.values()]
        names = (
            list(given)
            if len(given) == len(flat)
            else [f"argument {place}" for place in range(len(flat))]
        )
        pairs = list(zip(names, dynamic_shapes, flat, strict=False))
    for name, entry, value in pairs:
        if isinstance(value, torch.Tensor) and isinstance(entry, Mapping):
            _check_dims(f"dynamic_shapes, {sanitize(name)}", entry, value.dim())


def _check_dims(where: str, entry: Mapping[Any, Any], rank: int) -> None:
    for dim in entry:
        if not (isinstance(dim, int) and 0 <= dim < rank):
            expected = (
                f"a dimension from 0 to {rank - 1}"
                if rank
                else "none, of a tensor without dimensions"
            )
            raise InputError(
                where,
                expected=expected,
                got=sanitize(repr(dim), 60),
                next="{0: 'batch'}" if rank else None,
            )


def _not_captured(
    where: str, error: Exception, dynamic_shapes: Any, arguments: Mapping[str, Any]
) -> ModelError:
    """Make the error for a module that `torch.export.export` refuses."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    name = type(error).__name__
    got = f"{name}: {lines[0].removesuffix('.')}" if lines else name
    about_sizes = any(word in text for word in _ABOUT_SIZES) or name == "ConstraintViolationError"
    if dynamic_shapes is not None and about_sizes:
        return _size_refused(
            where, got, text, requested_dimensions(dynamic_shapes, arguments), arguments
        )
    line = _line_of_error(error)
    where = f"{where}, {line}" if line else where
    if ".numpy() is not supported" in text:
        got = "NumPy: torch.export cannot follow it"
        return ModelError(
            where, expected="torch ops, which follow the arguments", got=got, next=OPAQUE
        )
    if "data-dependent" in text:
        got, next_ = _decided_by_values(line)
        return ModelError(where, expected="control flow that no values decide", got=got, next=next_)
    next_ = "see the error above, of torch"
    return ModelError(
        where,
        expected="a forward that torch.export.export takes",
        got=sanitize(got, 600),
        next=next_,
    )


_ABOUT_SIZES = "dynamic_shapes", "Constraints violated", "dynamic shape", "user-specified ranges"


def _decided_by_values(line: str) -> tuple[str, str]:
    """Say what a line does with the values of a tensor, and what to write instead."""
    if re.search(r"`(el)?if\b", line):
        return "a branch that a tensor's values decide", "torch.cond, or torch.where"
    if "`while" in line:
        return "a loop that a tensor's values end", "torch.while_loop, or a fixed number of turns"
    if re.search(r"\b(float|int|bool)\(|\.item\(|\.tolist\(", line):
        return (
            "a Python number of a tensor's value",
            "leave it a tensor: x.sum() for float(x.sum())",
        )
    return "a tensor's value as a Python number", "torch.cond, or torch.where"


def _size_refused(
    where: str,
    got: str,
    text: str,
    requests: Sequence[Mapping[int, Any]],
    arguments: Mapping[str, Any],
) -> ModelError:
    """Make the error for a dimension that was to be open and that forward does not let change."""
    expected = "sizes that forward lets change"
    tensors = [
        leaf
        for leaf in torch.utils._pytree.tree_leaves(dict(arguments))
        if isinstance(leaf, torch.Tensor)
    ]
    for tensor, request in zip(tensors, requests, strict=False):
        for axis in request:
            if axis < tensor.dim() and tensor.shape[axis] == 1:
                # Torch takes a size of 1 for a constant, as it broadcasts.
                got = f"an example with size 1 along axis {axis}, which torch takes for fixed"
                return ModelError(
                    f"{where}, dynamic_shapes",
                    expected=expected,
                    got=got,
                    next="an example with 2 or more there",
                )
    fixed = re.search(r"specialized it to be a constant \((\d+)\)", text)
    if fixed is not None:
        got = f"a forward that takes only {fixed[1]} there, as a loop over the dimension does"
        next_ = "torch.export.Dim.AUTO for it, which fixes the size, or leave it out"
        return ModelError(f"{where}, dynamic_shapes", expected=expected, got=got, next=next_)
    details = [line.strip(" -") for line in text.splitlines()[1:] if line.lstrip().startswith("-")]
    if details:
        got = f"{got} {details[0]}"
    next_ = "one entry an argument, as ({0: 'batch'}, None); leave out what cannot change"
    return ModelError(
        f"{where}, dynamic_shapes", expected=expected, got=sanitize(got, 400), next=next_
    )


def _line_of_error(error: BaseException) -> str:
    """The user's line in which an error of `torch.export.export` began."""
    frames, step = [], error.__traceback__
    while step is not None:
        frames.append((step.tb_frame.f_code.co_filename, step.tb_lineno))
        step = step.tb_next
    # The first is that of the caller here.
    return line_in(frames[1:])


# ---- the program -------------------------------------------------------------------------------------------------------------


def _check_program(program: Any, where: str, any_numbers: bool) -> None:
    for node, around in calls_in(program):
        if is_random(node) and not any_numbers:
            expected, next_ = (
                "what gives the same numbers each time",
                "draw the numbers outside, and give them as an input",
            )
            raise ModelError(
                where_of(node, around), expected=expected, got="random numbers", next=next_
            )
    _check_ends(program, where)


def check_buffers(program: Any, decomposed: Any, where: str) -> None:
    """Refuse a module whose forward changes its own buffers: the model would be right in its first run only.

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
    changed = decomposed.graph_signature.buffers_to_mutate.values()
    for name in changed:
        places = {
            place
            for place, buffer in program.graph_signature.inputs_to_buffers.items()
            if buffer == name
        }
        writes = (
            node
            for node, _ in calls_in(program)
            if getattr(getattr(node.target, "_schema", None), "is_mutable", False)
        )
        line = next(
            (line_of(node) for node in writes if node.all_input_nodes[0].name in places), ""
        )
        raise ModelError(
            f"{line or where}, buffer {sanitize(name)}",
            expected="a forward that does not change its module",
            got=f"one that writes to {sanitize(name)}",
            next="take it as an argument, and return what it becomes",
        )


def is_random(node: Any) -> bool:
    """Whether a call draws random numbers; dropout that does not train, or drops nothing, draws none."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    given = {argument.name: value for argument, value in arguments_of(node)}
    return given.get("train", given.get("training")) is not False and given.get("dropout_p") != 0


def _check_ends(program: Any, where: str) -> None:
    names = {*program.graph_signature.user_inputs}
    (output,) = (node for node in program.graph_module.graph.nodes if node.op == "output")
    ends = [
        (f"input {node.name}", node)
        for node in program.graph_module.graph.nodes
        if node.name in names
    ]
    ends += [
        (f"output {place}", node)
        for place, node in enumerate(output.args[0])
        if isinstance(node, torch.fx.Node) and node.name in program.graph_signature.user_outputs
    ]
    for end, node in ends:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        line = line_of(node)
        place = f"{line or where}, {sanitize(end)}"
        if value.is_complex():
            next_ = "torch.view_as_real, or torch.view_as_complex"
            raise ModelError(
                place,
                expected="real numbers, as ONNX Runtime takes no others",
                got=str(value.dtype),
                next=next_,
            )
        if value.is_quantized or value.layout is not torch.strided:
            raise ModelError(
                place,
                expected="a dense tensor",
                got=f"{value.dtype}, {value.layout}",
                next="x.dequantize() or x.to_dense()",
            )
