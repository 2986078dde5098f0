# A run with its tensors.
from .api import trace as trace

# Weights, read on demand.
from .initializers import Initializers as Initializers

# How long nodes took.
from .node_times import NodeProfile as NodeProfile
from .node_times import Profile as Profile

# Many runs of a session, timed.
from .profiling import profile as profile

# What a run left, and its model with its weights.
from .recorded_run import Trace as Trace
from .recorded_run import model_with_weights as model_with_weights

# Runs in other processes, at other levels of optimization, and in the reference.
from .runs import elsewhere as elsewhere
from .runs import optimized_run as optimized_run
from .runs import reference_run as reference_run

# Whether another runtime is meant.
from .runs.environments import is_other_runtime as is_other_runtime

# A time of many runs in a few numbers.
from .spread import Spread as Spread

# A tensor in a few numbers.
from .summary import Summary as Summary

# Which nodes an optimized graph runs in place of others.
from .tensor_origins import origins as origins

# The times of a run by its nodes.
from .times import Times as Times
