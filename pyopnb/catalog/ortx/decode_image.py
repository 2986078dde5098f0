"""DecodeImage of onnxruntime-extensions, with which image models begin that take files.

Defined in microsoft/onnxruntime-extensions v0.15.2, operators/vision/image_decoder.hpp. Differs:
Pillow decodes here, which has to be installed; libraries may differ in the last bit of a JPEG's
pixels. Tested against onnxruntime-extensions, exactly for PNG and for JPEG, to 6 of 255.
"""

import importlib
import io

import numpy as np

NAMES = ("com.microsoft.extensions::DecodeImage",)


class DecodeImage:
    """Decode the bytes of a PNG or JPEG file to uint8[H,W,3], blue first."""

    def __init__(self, color_space: str = "bgr"):
        if color_space.lower() not in ("bgr", "rgb"):
            raise ValueError(f"color_space: expected bgr or rgb, got {color_space}")
        self.is_rgb = color_space.lower() == "rgb"

    def infer(self, data):
        return "uint8[H,W,3]"

    def compute(self, data: "uint8[N]"):
        image = importlib.import_module("PIL.Image").open(io.BytesIO(data.tobytes()))
        # Gray images and palettes also get three channels; an alpha channel is dropped.
        pixels = np.asarray(image.convert("RGB"))
        return pixels if self.is_rgb else np.ascontiguousarray(pixels[..., ::-1])
