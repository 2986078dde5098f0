"""What tutorial 17_tensorrt_model claims: run after its last cell, among the notebook's own names."""

for name, result in zip(names, results, strict=True):
    np.testing.assert_allclose(result, changed[name], rtol=1e-6)
found, kept = int(detections["num_dets"][0, 0]), int(changed["num_dets"][0, 0])
assert found > kept > 0
assert set(changed["det_classes"][0, :kept].tolist()) == {0, 1}
assert (detections["det_scores"][0, :found] >= 0.5).all()
