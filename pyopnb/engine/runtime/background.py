"""Asynchronous runs, on Python threads."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["BackgroundFailure", "run_in_background"]


class BackgroundFailure(str):
    """The text of an exception that an asynchronous run raised.

    Attributes
    ----------
    exception : BaseException
        With its traceback.
    """

    exception: BaseException

    @classmethod
    def of(cls, error: BaseException) -> BackgroundFailure:
        """Make the text of an exception with its notes, and keep the exception with it."""
        failure = cls("".join(traceback.format_exception_only(error)).strip())
        failure.exception = error
        return failure


def run_in_background(
    run: Callable[[], list[Any]], callback: Callable[[list[Any], Any, str], Any], data: Any
) -> None:
    """Run on a new thread, and call the callback there when the run has ended.

    The callback gets the results, the data, and ``""`` or a `BackgroundFailure`.
    """

    def body() -> None:
        try:
            results, failure = run(), ""
        except BaseException as error:
            # No thread joins this one, so any exception can only go to the callback.
            results, failure = [], BackgroundFailure.of(error)
        callback(results, data, failure)

    threading.Thread(target=body, name="pyopnb run_async").start()
