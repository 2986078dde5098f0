"""YoloLayer_TRT, which differs from fork to fork.

Defined in jkjung-avt/tensorrt_demos and in wang-xinyu/tensorrtx, plugins/yolo_layer.cu: one name
for several heads, with other attrs, other anchors and other memory layouts of the result.
"""

NAMES = ("TRT::YoloLayer_TRT", "::YoloLayer_TRT", "TRT::YoloLayerPlugin")
REFUSAL = "forks give the name to different operators, and no file tells which one is meant"
INSTEAD = "export the model without the plugin, or write yours: pyopnb.skeleton(model, node)"
