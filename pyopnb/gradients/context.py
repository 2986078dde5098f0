"""Give onnx-ad a context for a single direction, in which empty arrays have a gradient."""

from __future__ import annotations

from onnx_ad._build import Context

__all__ = ["SingleContext"]


class SingleContext(Context):  # type: ignore[misc]  # onnx-ad has no types
    """A context whose directions are one.

    onnx-ad leaves their number to the -1 of a Reshape, which is not known where another dimension is 0, as in an empty batch.
    """

    def child(self) -> SingleContext:
        """Make the context of a body."""
        scope: SingleContext = super().child()
        # onnx-ad makes one of its own class.
        scope.__class__ = type(self)
        return scope

    def reshape_like(self, value: str, primal: str) -> str:
        """Bring a gradient to the shape of a value, with the axis of the direction."""
        static = self.shapes.static(primal)
        shape = self._with_direction(primal) if static is None else self.b.ints([*static, 1])
        return str(self.b.op("Reshape", [value, shape], allowzero=1))

    def unbroadcast(self, value: str, source_rank: int, target: str) -> str:
        """Sum a gradient of a value that was broadcast to a rank to the shape of the value."""
        lead = source_rank - self.rank(target)
        if lead < 0 or self.shapes.static(target) is not None:
            return str(super().unbroadcast(value, source_rank, target))
        padded = self.shape_of(target)
        if lead:
            padded = self.b.op("Concat", [self.b.ints([1] * lead), padded], axis=0, stem="padded")
        # Which axes were broadcast is known only in a run: those whose size is 1 there.
        ones = self.b.op("NonZero", [self.b.op("Equal", [padded, self.b.ints([1])])])
        reduced = self.reduce_sum(value, self.squeeze(ones, [0]), keepdims=1)
        return str(self.b.op("Reshape", [reduced, self._with_direction(target)], allowzero=1))

    def _with_direction(self, name: str) -> str:
        sizes = [self.shape_of(name), self.b.ints([1])]
        return str(self.b.op("Concat", sizes, axis=0, stem="restore"))
