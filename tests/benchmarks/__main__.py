"""All benchmarks as one table, which results.csv keeps: ``python tests/benchmarks``. A missed bar says NO; nothing fails."""

from __future__ import annotations

import platform
from itertools import chain

import bench_calls
import bench_catalog
import bench_compiled
import bench_diff
import bench_divergence
import bench_fill
import bench_grad
import bench_growth
import bench_import
import bench_lower
import bench_memory
import bench_missing
import bench_processes
import bench_reload
import bench_show
import bench_threads
import bench_torch
import bench_trace
import bench_train
import bench_watch
import catalog_agreement
import numpy
import onnx
import onnxruntime
import onnxruntime_extensions
import results
import table

import pyopnb

versions = (pyopnb, numpy, onnx, onnxruntime, onnxruntime_extensions)
print(
    f"Python {platform.python_version()}, {', '.join(f'{package.__name__} {package.__version__}' for package in versions)}\n"
)
themes = (
    bench_import,
    bench_calls,
    bench_reload,
    bench_threads,
    bench_processes,
    bench_memory,
    bench_missing,
    bench_fill,
    bench_catalog,
    bench_growth,
    bench_lower,
    bench_compiled,
    bench_grad,
    bench_train,
    bench_diff,
)
looking = (bench_show, bench_trace, bench_divergence, bench_watch)
doors = (bench_torch,)
rows = table.show(chain.from_iterable(theme.rows() for theme in (*themes, *looking, *doors)))
results.append(rows, results.machine())
print(f"\nAppended to {results.RESULTS}")

# After the rows are kept: it runs the tests of the catalogue, and writes a table of its own.
catalog_agreement.measure()
print(f"\nWritten to {catalog_agreement.RESULTS}")
