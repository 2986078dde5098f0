"""EncodeImage of onnxruntime-extensions, with which image models end that write files.

Defined in microsoft/onnxruntime-extensions v0.15.2, operators/vision/encode_image.hpp. Differs:
Pillow encodes here, which has to be installed: the file's bytes differ, and its pixels do not.
Tested against onnxruntime-extensions, whose DecodeImage reads the files, exactly.
"""

import importlib
import io

import numpy as np

NAMES = ("com.microsoft.extensions::EncodeImage",)


class EncodeImage:
    """Encode uint8[H,W,3], blue first, as the bytes of a PNG or JPEG file."""

    def __init__(self, format: str = "png", color_space: str = "bgr"):
        if format not in ("png", "jpg") or color_space not in ("bgr", "rgb"):
            raise ValueError(f"expected png or jpg and bgr or rgb, got {format} and {color_space}")
        self.format = {"png": "PNG", "jpg": "JPEG"}[format]
        self.is_rgb = color_space == "rgb"

    def infer(self, pixels):
        return "uint8[N]"

    def compute(self, pixels: "uint8[H,W,3]"):
        # Pillow has red first.
        red_first = pixels if self.is_rgb else np.ascontiguousarray(pixels[..., ::-1])
        image = importlib.import_module("PIL.Image").fromarray(red_first)
        file = io.BytesIO()
        image.save(file, self.format)
        return np.frombuffer(file.getvalue(), np.uint8)
