"""Ops in C++ that several tests compile."""

SOFT_CLIP = """
// Clip x smoothly to ±limit.
void SoftClip(Input<float> x, Output<float> y, float limit = 1.0f) {
  float* out = y.allocate(x.shape());
  for (int64_t i = 0; i < x.size(); ++i) out[i] = limit * std::tanh(x[i] / limit);
}
"""

# The example of PyTorch's documents, whose scale and bias are read by the group where they
# belong to the channel.
GROUP_NORM = """
#include <numeric>

// Normalize each group of channels; scale and bias are those of the channel.
void GroupNorm(Input<float> x, Input<float> scale, Input<float> bias, Output<float> y, int64_t num_groups, float eps = 1e-5f) {
  const int64_t batch = x.dim(0), channels = x.dim(1);
  if (num_groups < 1 || channels % num_groups)
    throw std::invalid_argument(std::to_string(channels) + " channels are no multiple of num_groups");
  const int64_t each = channels / num_groups, pixels = x.size() / std::max<int64_t>(batch * channels, 1), size = each * pixels;
  const float* in = x.data();
  float* out = y.allocate(x.shape());
  for (int64_t group = 0; group < batch * num_groups; ++group, in += size, out += size) {
    double mean = std::accumulate(in, in + size, 0.0) / size, squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const double factor = 1 / std::sqrt(squares / size + eps);
    for (int64_t c = 0; c < each; ++c) {
      const int64_t channel = group % num_groups * each + c;
      for (int64_t i = c * pixels; i < (c + 1) * pixels; ++i)
        out[i] = static_cast<float>((in[i] - mean) * factor * scale[channel] + bias[channel]);
    }
  }
}
"""

PARTS = """
template <typename T = AnyOf<float, double, int64_t>>
void Parts(Input<T> x, std::optional<Input<T>> bias, std::vector<Input<bool>> masks, Output<T> y, Output<int64_t> counts,
           const std::vector<int64_t>& axes = {1, -2}, const std::string& mode = "sum", double by = 1e1, bool twice = false,
           int most = 0x10) {
  y.allocate(x.shape());
  for (int64_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(x[i] * by * (twice ? 2 : 1) + (bias ? (*bias)[i] : 0));
  counts.allocate({2, 2});
  counts[0] = masks.size(), counts[1] = axes.size() * (mode == "sum"), counts[2] = axes.empty() ? 0 : axes[0], counts[3] = most;
}
"""
