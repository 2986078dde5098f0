"""Nodes that talk to another process.

Defined in microsoft/onnxruntime, orttraining/orttraining/core/graph/training_op_defs.cc. Send and
Recv wait for another rank, and events for another stream: none of them is a function of its inputs.
"""

NAMES = (
    "com.microsoft::Send",
    "com.microsoft::Recv",
    "com.microsoft::RecordEvent",
    "com.microsoft::WaitEvent",
)
REFUSAL = "its result comes from another process"
INSTEAD = "the model as it was exported, before a pipeline cut it"
