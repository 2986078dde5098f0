"""Classes of the ONNX reference implementation, ``OpRun`` with ``_run``, as ops.

``OpRun`` gets its attributes as a node, and ``_run`` the inputs by position and the attributes by
name. The op is a subclass that has ``__init__`` and ``compute`` as any op.
"""

from __future__ import annotations

import inspect
import sys
from inspect import Parameter
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from pyopnb.engine.ops.attr_kinds import kind_of_class

__all__ = ["as_op", "is_op_run", "is_written_as", "name_of", "written_class"]


def is_op_run(cls: object) -> bool:
    """Tell whether a class is one of the ONNX reference implementation, without ``compute``."""
    # A caller with such a class has imported its base.
    module = sys.modules.get("onnx.reference.op_run")
    # An abstract class remembers each class that was checked against it.
    is_one = module is not None and isinstance(cls, type) and module.OpRun in cls.__mro__
    return is_one and not hasattr(cls, "compute")


def written_class(cls: type) -> type:
    """Return the class that the user wrote, for one that `as_op` may have made from it."""
    written: type = vars(cls).get("_written_as", cls)
    return written


def is_written_as(cls: type, thing: object) -> bool:
    """Tell whether an object is the class of an op, or the class that the user wrote for it."""
    return thing is cls or thing is written_class(cls)


def name_of(cls: Any) -> str:
    """Return the name of an op that gives none: the class's name in its ``op_domain``."""
    domain = getattr(cls, "op_domain", "")
    is_named = domain and isinstance(domain, str)
    return f"{domain}::{cls.__name__}" if is_named else str(cls.__name__)


def as_op(cls: type) -> type:
    """Return the class that serves as an op: ``cls`` itself, or one made of an ``OpRun``.

    Parameters
    ----------
    cls : type
        One that this function has made is made again, because its ``_run`` may have changed.
    """
    written = written_class(cls) if isinstance(cls, type) else cls
    if not is_op_run(written):
        return cls
    base: Any = written
    inputs, attrs, takes_any = _parameters(base._run)

    def __init__(self: Any, **values: Any) -> None:  # noqa: N807  # it becomes a method
        attributes = {name: _storable(value) for name, value in values.items()}
        node = helper.make_node(base.__name__, [], [], domain=base.op_domain, **attributes)
        opsets = {base.op_domain: 1, "": 1}
        params = {"opsets": opsets, "new_ops": None, "verbose": 0, "log": lambda *_: None}
        base.__init__(self, node, params)

    def compute(self: Any, *arrays: Any) -> Any:
        # An input that is left out at the end has its default.
        while arrays and arrays[-1] is None:
            arrays = arrays[:-1]
        names = [name for name in self.attributes_names_ if takes_any or name in attrs]
        return self._run(*arrays, **{name: getattr(self, name) for name in names})

    me = Parameter("self", Parameter.POSITIONAL_ONLY)
    others = [Parameter("attrs", Parameter.VAR_KEYWORD)] if takes_any else []
    signature = inspect.Signature([me, *attrs.values(), *others])
    __init__.__signature__ = signature  # type: ignore[attr-defined]
    returns = inspect.signature(base._run).return_annotation
    signature = inspect.Signature([me, *inputs], return_annotation=returns)
    compute.__signature__ = signature  # type: ignore[attr-defined]
    members = {
        "__doc__": base.__doc__,
        "__init__": __init__,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "compute": compute,
        "_attrs_of": "_run",
        "_written_as": base,
    }
    made: type = type(base)(base.__name__, (base,), members)
    return made


def _parameters(run: Any) -> tuple[list[Parameter], dict[str, Parameter], bool]:
    """Tell the inputs of ``_run`` from its attrs, which only its defaults and hints distinguish."""
    inputs: list[Parameter] = []
    attrs: dict[str, Parameter] = {}
    takes_any = False
    for parameter in list(inspect.signature(run).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            inputs.append(parameter)
            continue
        default = parameter.default
        is_attr = (
            parameter.kind is parameter.KEYWORD_ONLY
            or kind_of_class(parameter.annotation) not in (None, "tensor")
            or (default is not None and default is not parameter.empty)
        )
        if not is_attr:
            # The first is an input; of the others, a node says what they are.
            default = None if inputs else default
            port = parameter.replace(default=default, kind=parameter.POSITIONAL_ONLY)
            inputs.append(port)
        if is_attr or inputs[1:]:
            hint = parameter.annotation if is_attr else parameter.empty
            default = parameter.default if is_attr else None
            attrs[parameter.name] = Parameter(
                parameter.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint
            )
    return inputs, attrs, takes_any


def _storable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return numpy_helper.from_array(value)
    return int(value) if isinstance(value, bool) else value
