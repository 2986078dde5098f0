"""Options of sessions and runs, with the additions of pyopnb."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import GraphProto, ModelProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import InferenceSession

from pyopnb.common import sanitize
from pyopnb.engine.ops.argument_checks import describe, is_text
from pyopnb.engine.runtime.ortvalues import initializer_to_ortvalue
from pyopnb.errors import InputError, ModelError

if TYPE_CHECKING:
    from pyopnb.engine.models.model_files import ModelSource

__all__ = [
    "CPU",
    "LENT",
    "QUIET",
    "SHRINKAGE",
    "check_providers",
    "check_run_options",
    "copied_options",
    "lock_of",
    "model_folder",
    "new_options",
    "options_from",
    "quiet_options",
    "read_options",
    "refuse_lent_weights",
    "session_entry",
    "session_options",
    "shrinks_arena",
    "writes_files",
]

CPU = "CPUExecutionProvider"

_FOLDER = "session.model_external_initializers_file_folder_path"


def new_options(level: str = "all", *, threads: int = 0) -> onnxruntime.SessionOptions:
    """Make session options that log nothing, as errors arrive as exceptions.

    Parameters
    ----------
    level : str
        Of the ONNX Runtime optimizations: ``"all"``, ``"extended"``, ``"basic"``, ``"no"`` …
    threads : int
        As many as there are cores if 0.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    name = "ORT_DISABLE_ALL" if level == "no" else f"ORT_ENABLE_{level.upper()}"
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    return options


def copied_options(options: onnxruntime.SessionOptions) -> onnxruntime.SessionOptions:
    """Copy session options with the weights, without the libraries and providers added to them."""
    # A session has a copy of its options, and takes the weights out of it when it is initialized,
    # which this one never is.
    least = ModelProto(ir_version=4, graph=GraphProto(), opset_import=[helper.make_opsetid("", 7)])
    runtime = InferenceSession(options, least.SerializeToString(), False, False)
    if options.enable_profiling:  # then it began a file
        os.remove(runtime.end_profiling())
    copied: onnxruntime.SessionOptions = runtime.session_options
    LENT[copied] = dict(LENT.get(options, {}))
    return copied


_LOCKS: weakref.WeakKeyDictionary[onnxruntime.SessionOptions, threading.RLock] = (
    weakref.WeakKeyDictionary()
)


def lock_of(options: onnxruntime.SessionOptions) -> threading.RLock:
    """Return the lock that is held while a session is made with options, or while they change.

    It is reentrant, as an op can make a session in ``__init__``.
    """
    return _LOCKS.setdefault(options, threading.RLock())


def quiet_options() -> onnxruntime.RunOptions:
    """Make run options that silence the ONNX Runtime log of failing nodes."""
    options = onnxruntime.RunOptions()
    # The exception already says what ONNX Runtime would log about a failing node.
    options.log_severity_level = 4
    return options


QUIET = quiet_options()
"""The options of runs without options from the user."""


def check_run_options(options: Any) -> None:
    """Raise `InputError` unless the value is RunOptions or None."""
    if not (options is None or isinstance(options, onnxruntime.RunOptions)):
        expected = "onnxruntime.RunOptions, or None"
        raise InputError(
            "run, run_options",
            expected=expected,
            got=describe(options),
            next="onnxruntime.RunOptions()",
        )


def check_providers(providers: Any, options: Any, *, available: bool = False) -> None:
    """Raise `InputError` for malformed or unknown providers, or malformed provider options.

    Parameters
    ----------
    available : bool
        Also refuse providers that this build of ONNX Runtime lacks. Otherwise, ONNX
        Runtime warns of them.
    """
    names = onnxruntime.get_available_providers()
    # Scripts for several machines list CUDA before the CPU; a name that no build knows is a typo,
    # for which ONNX Runtime would use the CPU.
    accepted = names if available else [*names, *onnxruntime.get_all_providers()]
    is_list = isinstance(providers, (list, tuple)) and all(map(_is_provider, providers))
    wrong = providers if providers is not None and not is_list else None
    if is_list:
        used = [item[0] if isinstance(item, tuple) else item for item in providers]
        wrong = next((name for name in used if name not in accepted), None)
    if wrong is not None:
        expected = f"a list of names among {', '.join(names)}"
        raise InputError("providers", expected=expected, got=describe(wrong), next=repr(names[-1:]))
    if providers is None or options is None:
        return
    is_list = isinstance(options, (list, tuple)) and all(isinstance(item, dict) for item in options)
    if not is_list or len(options) != len(providers):
        expected = "a list of dicts, one for each of the providers"
        raise InputError("provider_options", expected=expected, got=describe(options), next="[{}]")


def _is_provider(one: Any) -> bool:
    return is_text(one) or (
        isinstance(one, tuple) and len(one) == 2 and is_text(one[0]) and isinstance(one[1], dict)
    )


def session_options(
    given: onnxruntime.SessionOptions | None, source: ModelSource
) -> onnxruntime.SessionOptions:
    """Add the model's external data to the user's options, or to new ones."""
    options = new_options() if given is None else given
    if source.folder is not None and session_entry(options, _FOLDER) != source.folder:
        options.add_session_config_entry(_FOLDER, source.folder)
    if source.taken_out:
        _lend(options, source.taken_out)
    return options


LENT: weakref.WeakKeyDictionary[onnxruntime.SessionOptions, dict[str, tuple[Any, Any]]] = (
    weakref.WeakKeyDictionary()
)
"""Initializers that options hand to sessions, by name: tensor and OrtValue.

They are kept here because onnxruntime does not own the memory that it reads.
"""


def _lend(options: onnxruntime.SessionOptions, tensors: Mapping[str, Any]) -> None:
    lent = LENT.setdefault(options, {})
    new = {}
    for name, tensor in tensors.items():
        if name not in lent:
            new[name] = initializer_to_ortvalue(tensor)
        elif lent[name][0] is not tensor:
            # Options have one value for a name, and cannot take it back.
            raise ModelError(
                f"initializer {name}",
                expected="separate options for each model over 2 GB",
                next="SessionOptions()",
            )
    if new:
        options.add_external_initializers(list(new), list(new.values()))
        for name, value in new.items():
            lent[name] = tensors[name], value


def model_folder(given: onnxruntime.SessionOptions | None) -> str | None:
    """Return the folder of external data that options name."""
    if given is None:
        return None
    return session_entry(given, _FOLDER) or None


SHRINKAGE = "memory.enable_memory_arena_shrinkage"
"""The run option that returns a session's unused memory to the system when the run ends."""


def shrinks_arena(options: Any) -> bool:
    """Tell whether a run gives unused memory back."""
    try:
        return bool(options.get_run_config_entry(SHRINKAGE))
    except (AttributeError, RuntimeError):  # no options, or no such entry
        return False


def session_entry(options: onnxruntime.SessionOptions, key: str) -> str | None:
    """Read an entry of the configuration; None where there is none."""
    try:
        return str(options.get_session_config_entry(key))
    except RuntimeError:  # how onnxruntime says that there is no such entry
        return None


# ---- options for another process -----------------------------------------------------------------

# Options cannot list their entries, so each has to be asked for. These are of
# onnxruntime_session_options_config_keys.h, as far as a user of the CPU or of a plug-in may set
# them.
_ENTRIES = (
    "ep.context_embed_mode",
    "ep.context_enable",
    "ep.context_file_path",
    "mlas.disable_kleidiai",
    "mlas.use_lut_gemm",
    "optimization.constant_folding_max_output_size_in_bytes",
    "optimization.disable_specified_optimizers",
    "optimization.enable_cast_chain_elimination",
    "optimization.enable_gelu_approximation",
    "optimization.minimal_build_optimizations",
    "session.allow_released_opsets_only",
    "session.collect_node_memory_stats_to_file",
    "session.debug_layout_transformation",
    "session.disable_aot_function_inlining",
    "session.disable_cpu_ep_fallback",
    "session.disable_double_qdq_remover",
    "session.disable_prepacking",
    "session.disable_qdq_constant_folding",
    "session.disable_quant_qdq",
    "session.dynamic_block_base",
    "session.enable_dq_matmulnbits_fusion",
    "session.enable_quant_qdq_cleanup",
    "session.force_spinning_stop",
    "session.graph_optimizations_loop_level",
    "session.inter_op.allow_spinning",
    "session.intra_op.allow_spinning",
    "session.intra_op_thread_affinities",
    "session.load_model_format",
    "session.optimized_model_external_initializers_file_name",
    "session.optimized_model_external_initializers_min_size_in_bytes",
    "session.qdq_matmulnbits_accuracy_level",
    "session.qdq_matmulnbits_block_size",
    "session.qdqisint8allowed",
    "session.save_external_prepacked_constant_initializers",
    "session.save_model_format",
    "session.set_denormal_as_zero",
    "session.strict_shape_type_inference",
    "session.use_device_allocator_for_initializers",
    "session.use_env_allocators",
    "session.use_memory_mapped_ort_model",
    "session.use_ort_model_bytes_directly",
    "session.use_ort_model_bytes_for_initializers",
    "session.x64quantprecision",
)

_FILES = ("enable_profiling", "optimized_model_filepath")
"""Fields that make a session write a file; several processes would write the same one."""


def writes_files(options: onnxruntime.SessionOptions) -> bool:
    """Tell whether each session that is made with the options writes a file."""
    return any(getattr(options, name) for name in _FILES)


def read_options(options: onnxruntime.SessionOptions) -> dict[str, Any]:
    """Read the options of a session that differ from the defaults, for `options_from`.

    Raises
    ------
    InputError
        The options make each session write a file.
    """
    default = onnxruntime.SessionOptions()
    fields = {}
    for name in dir(options):
        if name.startswith("_"):
            continue
        value = getattr(options, name)
        if not callable(value) and value != getattr(default, name):
            fields[name] = value
    if written := next((name for name in _FILES if name in fields), None):
        raise InputError(
            f"Session: pickle, SessionOptions.{written}",
            expected="options that write no file, as each process would write it",
            got=sanitize(repr(fields[written]), 80),
            next="a session with options of its own",
        )
    entries = {}
    for key in _ENTRIES:
        entry = session_entry(options, key)
        if entry is not None:
            entries[key] = entry
    plain_fields = {name: _plain(value) for name, value in fields.items()}
    return {"fields": plain_fields, "entries": entries}


def refuse_lent_weights(runtime: onnxruntime.InferenceSession, proto: ModelProto) -> None:
    """Raise `InputError` for initializers to which the options give other values than the model."""
    # Options cannot list their initializers, but they refuse a second one of the same name.
    copied = runtime._sess.session_options
    value = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32))
    for tensor in proto.graph.initializer:
        try:
            copied.add_initializer(tensor.name, value)
        except RuntimeError:  # how onnxruntime says that it is there already
            raise InputError(
                "Session: pickle, SessionOptions.add_initializer",
                expected="options that can be read again",
                got=sanitize(f"a value of {tensor.name}", 120),
                next="make the session in the other process, "
                "or pyopnb.save the model with these initializers",
            ) from None


def _plain(value: Any) -> Any:
    # Enumerations of the onnxruntime cannot be pickled by every protocol.
    if hasattr(type(value), "__members__"):
        return (type(value).__name__, value.name)
    return value


def options_from(read: Mapping[str, Any]) -> onnxruntime.SessionOptions:
    """Make options from the settings that `read_options` found."""
    options = onnxruntime.SessionOptions()
    for name, value in read["fields"].items():
        # An enumeration went as the names of its type and of its member; see `_plain`.
        if isinstance(value, tuple):
            value = getattr(getattr(onnxruntime, value[0]), value[1])
        setattr(options, name, value)
    for key, entry in read["entries"].items():
        options.add_session_config_entry(key, entry)
    return options
