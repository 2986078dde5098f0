"""TRTBatchedBEVNMS, which mmdeploy took out again before its last release.

Defined in an earlier open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt;
v1.3.1 has no trace of it.
"""

NAMES = ("mmdeploy::TRTBatchedBEVNMS",)
REFUSAL = "mmdeploy removed the operator and its definition"
INSTEAD = "export the model again with mmdeploy 1.3.1"
