"""Let torch itself run the parts of a module that torch.export cannot capture.

A part is a submodule, at worst the whole module. It becomes a torch op without a look inside, whose
results' sizes are learned from runs of the module, and the capture is tried again.
"""

from __future__ import annotations

import copy
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from pyopnb.errors import ModelError, PyopError
from pyopnb.torch.example import Example, enlarged, line_of_error
from pyopnb.torch.holes import NoStandIn
from pyopnb.torch.part_learner import Learner, Submodule, replaced
from pyopnb.torch.part_ops import NotLearned
from pyopnb.torch.program import capture
from pyopnb.torch.sizes import FixedSize, derived_sizes, fixed_by_torch

__all__ = ["capture_around", "capture_narrowed", "capture_with_parts", "fixed_sizes"]

# Each failed capture names one part, and the last of them is the whole module.
_ATTEMPTS = 12

# The limit of a second capture, at other sizes.
_MOST_SECONDS = 20


def capture_with_parts(example: Example) -> Any:
    """Capture a module as a program, with ops for the submodules that torch cannot capture.

    Returns
    -------
    torch.export.ExportedProgram

    Raises
    ------
    ModelError
        As from `pyopnb.torch.program.capture`; or a part changes its module, or
        draws random numbers.
    """
    try:
        program = capture(example)
    except ModelError as refusal:
        # The torch error stays there. There is none, or our own, where it was
        # not torch that refused.
        failure = refusal.__context__
        if failure is None or isinstance(failure, PyopError):
            raise
        if "dynamic_shapes" in refusal.where:
            program = _with_open_sizes(example, refusal)
        else:
            program = _with_parts(example, refusal)
        if program is None:
            raise
    return _with_fewer_fixed_sizes(program, example)


def _with_parts(example: Example, refusal: Any) -> Any:
    """Capture a module with ever larger parts in torch; return None where nothing helps."""
    learner = _learner(example)
    if learner is None:
        return None
    frozen = learner.module
    failure, modules = refusal.__context__, example.module
    parts: dict[str, Submodule] = {}
    for path, _, _ in _script_objects(frozen):
        # Torch looks for these before it calls forward, so that its traceback names no submodule.
        if any(_is_inside(path, outer) for outer in parts):
            continue
        part = _next_part(learner, _ancestors(path), parts, failure, refusal)
        if part is not None:
            parts[part.path] = part
    has_script_objects = bool(parts)
    for attempt in range(_ATTEMPTS):
        if attempt or not has_script_objects:
            part = _next_part(learner, _paths_in(failure, modules), parts, failure, refusal)
            if part is None:
                return None
            paths = [path for path in parts if _is_inside(path, part.path)]
            for path in paths:
                del parts[path]
            parts[part.path] = part
        # From here on the copy is captured, and its modules are in the traceback.
        modules = frozen
        try:
            with _in_torch(frozen, list(parts.values())):
                return capture(learner.example)
        except ModelError as error:
            if error.__context__ is None:
                raise
            failure = error.__context__
            # Where it was a part that gave up, the user reads the torch reason for the part.
            if not isinstance(failure, NotLearned):
                refusal = error
    return None


def capture_around(example: Example, refusal: NoStandIn) -> Any:
    """Capture a module with the part in torch whose call cannot become a node, or as a whole.

    Returns
    -------
    torch.export.ExportedProgram

    Raises
    ------
    NoStandIn
        No op can replace the part either.
    """
    learner = _learner(example)
    if learner is None:
        raise refusal
    for path in dict.fromkeys((refusal.path, "")):
        try:
            part = learner.learn(path, refusal.line, refusal)
            with _in_torch(learner.module, [part]):
                return capture(learner.example)
        except (ModelError, AttributeError, NotLearned):
            continue
    raise refusal


def _with_fewer_fixed_sizes(program: Any, example: Example) -> Any:
    """Capture a module again, with a part in torch for sizes that only torch fixes.

    Forward itself takes other sizes there.
    """
    fixed = fixed_sizes(program, example)
    if not fixed:
        return program
    larger = enlarged(example, list(fixed))
    if larger is not None:
        # Forward may do something else at the very size of the example, as a
        # pool of one window does.
        try:
            general = capture(larger)
        except ModelError:
            general = None
        if general is not None and fixed_sizes(general, example).keys() < fixed.keys():
            return general
    try:
        # Where torch may not fix a size, its strict way is tried, which follows sizes further.
        return capture(replace(example, dynamic_shapes=_demanded(example.dynamic_shapes)))
    except ModelError:
        pass
    size = next(iter(fixed.values()))
    refusal = ModelError(
        f"{example.where}, dynamic_shapes",
        expected="sizes that can change",
        got=f"a fixed size {size.size} on axis {size.axis}, {size.reason}",
        next="the size fixed in the model: leave the axis out of dynamic_shapes",
    )
    try:
        general = _with_open_sizes(example, refusal, list(fixed))
    except ModelError:
        # No op can replace a part that draws random numbers, or changes its module.
        return program
    return program if general is None else general


def fixed_sizes(program: Any, example: Example) -> dict[tuple[int, int], FixedSize]:
    """List by tensor and axis the sizes that torch has fixed although they should be open."""
    names = program.graph_signature.user_inputs
    fixed = fixed_by_torch(program, names, example.requests)
    # Torch always takes a size of 1 for a constant, which another example mends.
    return {place: size for place, size in fixed.items() if size.size != 1}


def _with_open_sizes(
    example: Example, refusal: ModelError, fixed: Sequence[tuple[int, int]] | None = None
) -> Any:
    """Capture a module with the part in torch that fixes sizes; return None where nothing helps.

    Where torch itself decides which sizes it fixes, they are in `fixed`, by tensor and axis.
    """
    if fixed is None:
        try:
            # Torch refuses a size of a `torch.export.Dim` that is the sum of others, and
            # takes it without one.
            program = capture(replace(example, dynamic_shapes=_names_of(example.dynamic_shapes)))
        except ModelError:
            pass
        else:
            if derived_sizes(program):
                return program
    learner = _learner(example)
    if learner is None:
        return None
    changeable = learner.places_of_other_sizes(fixed)
    if not changeable or (fixed is None and len(changeable) < sum(map(len, example.requests))):
        return None

    def accept(program: Any) -> Any:
        if changeable.isdisjoint(fixed_sizes(program, example)):
            return program
        return None

    return _narrowed(learner, refusal, accept)


def capture_narrowed(example: Example, refusal: ModelError, accept: Callable[[Any], Any]) -> Any:
    """Capture a module with the smallest part in torch with which its model is right.

    Parameters
    ----------
    refusal : ModelError
        The fault without a part.
    accept : callable
        Takes a program, and returns the conversion; None where that is also wrong.

    Returns
    -------
    object
        The last result of `accept`; None where nothing helps.
    """
    learner = _learner(example)
    if learner is None:
        return None
    resized = learner.resized_example()
    if resized is not None:
        try:
            # At the example's size forward may leave out a step that it does at most others, such
            # as padding to even sizes.
            with _Deadline():
                program = capture(resized)
            result = accept(program)
        except (ModelError, TimeoutError):
            result = None
        if result is not None:
            return result
    learner.problem = "the exporter's model is not right for"
    return _narrowed(learner, refusal, accept)


class _Deadline(TorchFunctionMode):  # type: ignore[misc]
    """Ends a capture that a part in torch can do without.

    The torch conditions on sizes may take minutes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._end = time.process_time() + _MOST_SECONDS

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if time.process_time() > self._end:
            raise TimeoutError(f"a capture of more than {_MOST_SECONDS} seconds")
        return func(*args, **(kwargs or {}))


def _narrowed(learner: Learner, refusal: ModelError, accept: Callable[[Any], Any]) -> Any:
    """Put the whole module in torch, then ever smaller submodules while the program is accepted."""
    accepted, paths = None, [""]
    for _ in range(_ATTEMPTS):
        if not paths:
            break
        path = paths.pop(0)
        try:
            part = learner.learn(path, "", refusal)
            with _in_torch(learner.module, [part]):
                program = capture(learner.example)
            result = accept(program)
        except (ModelError, NotLearned):
            continue
        if result is None:
            continue
        accepted = result
        # The fault is in this submodule, and perhaps in one inside it.
        prefix = f"{path}." if path else ""
        children = learner.module.get_submodule(path).named_children()
        paths = [prefix + name for name, _ in children]
    return accepted


def _demanded(dynamic_shapes: Any) -> Any:
    """Ask torch to keep open the dimensions that it may decide on."""
    choices = torch.export.Dim

    def demanded(dim: Any) -> Any:
        return choices.DYNAMIC if dim is choices.AUTO else dim

    return torch.utils._pytree.tree_map(demanded, dynamic_shapes)


def _names_of(dynamic_shapes: Any) -> Any:
    """Write names for the dimensions that are a `torch.export.Dim` without bounds from the user."""

    def named(dim: Any) -> Any:
        return dim.__name__ if type(dim) is torch.export.Dim else dim

    return torch.utils._pytree.tree_map(named, dynamic_shapes)


def _learner(example: Example) -> Learner | None:
    """Make a learner of a copy of a module, if it can be copied and runs on the example."""
    try:
        # A part keeps the present weights, and attributes that forward sets do not reach the user's
        # module.
        frozen = copy.deepcopy(example.module)
    except (
        Exception
    ):  # modules may hold things that cannot be copied: files, locks, results of autograd
        return None
    learner = Learner(replace(example, module=frozen))
    return learner if learner.runs else None


def _next_part(
    learner: Learner,
    paths: Sequence[str],
    parts: Mapping[str, Submodule],
    failure: BaseException,
    refusal: ModelError,
) -> Submodule | None:
    """Learn the innermost submodule in which a capture failed and that an op can replace."""
    for path in paths:
        if path in parts:
            continue
        try:
            return learner.learn(path, line_of_error(failure), refusal)
        except NotLearned:
            continue
    return None


def _paths_in(failure: BaseException, module: Any) -> list[str]:
    """List the submodules whose forward was running when a capture failed, the innermost first."""
    path_of = {id(part): path for path, part in module.named_modules()}
    paths: list[str] = []
    for frame, _ in traceback.walk_tb(failure.__traceback__):
        path = path_of.get(id(frame.f_locals.get("self")))
        if path and path not in paths:
            paths.insert(0, path)
    return [*paths, ""]


def _ancestors(path: str) -> list[str]:
    """List a submodule and the modules around it, without the whole module."""
    names = path.split(".")
    return [".".join(names[:count]) for count in range(len(names), 0, -1) if path]


def _script_objects(module: Any) -> list[tuple[str, Any, str]]:
    """List by submodule and name the weights that torch packs for its kernels.

    Weights of quantized layers are packed.
    """
    packed_weights = []
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.ScriptObject):
                packed_weights.append((path, part, name))
    return packed_weights


def _is_inside(path: str, outer: str) -> bool:
    return not outer or path.startswith(f"{outer}.")


@contextmanager
def _in_torch(module: Any, parts: Sequence[Submodule]) -> Iterator[None]:
    """Let ops take the place of submodules, whose packed weights torch must not see."""
    hidden = []
    for _, owner, name in _script_objects(module):
        hidden.append((owner, name, getattr(owner, name)))
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(replaced(module.get_submodule(part.path), part.forward))
        for owner, name, value in hidden:
            stack.callback(setattr, owner, name, value)
            setattr(owner, name, None)
        yield
