// The module pyopnb.diffs.arrays._stats counts what two arrays differ in, in one walk over both, in
// constant memory.
//
// Python hands over chunk after chunk of two arrays, so that it can be interrupted between two of
// them and tell how far it is. Each chunk is split among a few lanes, always in the same way, so
// that the result does not depend on the number of threads. A lane (lane.h) walks over its part in
// blocks that fit a core's first cache, with the loops of loops.h.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "lane.h"

namespace nb = nanobind;

namespace pyopnb {

template <class Item>
using Array = nb::ndarray<const Item, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Dtype {
  const char* name;  // family and bytes of an element
  size_t itemsize;
  Lane::Count count;
};

constexpr Dtype kDtypes[] = {
    {"float2", 2, &Lane::count_floats<void, uint16_t>},
    {"float4", 4, &Lane::count_floats<float, uint32_t>},
    {"float8", 8, &Lane::count_floats<double, uint64_t>},
    {"int4", 4, &Lane::count_integers<int32_t>},
    {"int8", 8, &Lane::count_integers<int64_t>},
    {"uint8", 8, &Lane::count_integers<uint64_t>},
};

class Stats {
 public:
  Stats(const std::string& dtype, std::vector<int64_t> shape, double rtol, double atol,
        bool details, double smallest_normal, Array<float> values, Array<uint32_t> order)
      : values_(values), order_(order) {
    for (const Dtype& known : kDtypes) dtype_ = dtype == known.name ? known : dtype_;
    if (!dtype_.name) throw nb::value_error(("no such dtype: " + dtype).c_str());
    if (dtype == "float2" && (values.size() < 1 << 16 || order.size() < 1 << 16)) {
      throw nb::value_error("the tables of a float dtype have a row for each pattern of its bits");
    }
    for (size_t axis = 0; axis + 1 < shape.size(); axis++) task_.rows *= shape[axis];
    if (!shape.empty()) task_.columns = shape.back();
    task_.shape = std::move(shape);
    task_.rtol = rtol, task_.atol = atol,
    task_.allowed = atol < 0x1p64 ? static_cast<uint64_t>(atol) : UINT64_MAX;
    task_.details = details, task_.smallest_normal = smallest_normal;
    task_.values = values.data(), task_.order = order.data();
  }
  Stats(const Stats&) = delete;

  // Counts elements that begin at a position of the whole: contiguous, in the machine's byte order.
  void add(Array<uint8_t> left, Array<uint8_t> right, int64_t at, size_t threads) {
    if (left.size() != right.size() || left.size() % dtype_.itemsize) {
      throw nb::value_error("two buffers of the same number of whole elements are compared");
    }
    size_t count = left.size() / dtype_.itemsize, lanes = count < kShared ? 1 : kLanes;
    while (lanes_.size() < lanes) lanes_.push_back(std::make_unique<Lane>(task_));
    size_t share = (count / lanes / kBlock + 1) * kBlock,
           workers = std::max<size_t>(1, std::min(threads, lanes));
    auto work = [&](size_t worker) {
      for (size_t lane = worker; lane < lanes; lane += workers) {
        size_t end = std::min(count, (lane + 1) * share);
        for (size_t begin = lane * share; begin < end; begin += kBlock) {
          size_t offset = begin * dtype_.itemsize, size = std::min(kBlock, end - begin);
          auto position = at + static_cast<int64_t>(begin);
          (lanes_[lane].get()->*dtype_.count)(left.data() + offset, right.data() + offset, size,
                                              position);
        }
      }
    };
    nb::gil_scoped_release without_gil;
    // Where the system has no more threads, the work is deferred to this one, as the first worker's
    // is.
    std::vector<std::future<void>> shares;
    for (size_t worker = workers; worker-- > 1;) {
      shares.push_back(std::async(std::launch::async | std::launch::deferred, work, worker));
    }
    work(0);
    for (std::future<void>& done : shares) done.get();
  }

  // How many elements differ in their bits and in their values, and are over the tolerance.
  std::tuple<int64_t, int64_t, int64_t> totals() const {
    int64_t bits = 0, differing = 0, over = 0;
    for (const auto& lane : lanes_) {
      bits += lane->counts[kBits], differing += lane->counts[kDiffering],
          over += lane->counts[kOver];
    }
    return {bits, differing, over};
  }

  nb::dict result() {
    if (!task_.details) throw nb::value_error("without details there are only totals");
    if (lanes_.empty()) lanes_.push_back(std::make_unique<Lane>(task_));
    Lane& all = *lanes_.front();
    for (size_t lane = 1; lane < lanes_.size(); lane++) all.merge(*lanes_[lane]);
    lanes_.resize(1);
    nb::dict facts;
    nb::list worst, corners;
    for (const Worst& element : all.worst)
      worst.append(nb::make_tuple(element.at, away(element.key), element.ulp));
    for (const Point& corner : all.hull.corners())
      corners.append(nb::make_tuple(corner.t, corner.d));
    facts["counts"] = std::vector<int64_t>(all.counts.begin(), all.counts.end()),
    facts["first_odd"] = nb::cast(all.first_odd);
    facts["total"] = all.sums.total, facts["bias"] = all.sums.bias,
    facts["squares"] = all.sums.squares;
    facts["left"] = all.sums.left, facts["right"] = all.sums.right,
    facts["product"] = all.sums.product;
    facts["largest"] = all.largest, facts["peak"] = all.peak;
    facts["at_zero"] = all.at_zero, facts["ulp"] = all.ulp;
    facts["first_over"] = position(all.first_over),
    facts["first_differing"] = position(all.first_differing);
    facts["worst"] = worst, facts["corners"] = nb::tuple(corners);
    facts["grid"] = nb::cast(all.heatmap.fields), facts["width"] = all.heatmap.width;
    facts["axes"] = nb::cast(all.axes.counts);
    return facts;
  }

 private:
  static constexpr size_t kLanes = 4;
  static constexpr size_t kShared = 1 << 16;  // elements: fewer are done before a thread has begun

  static nb::object position(int64_t at) {
    return at == kNowhere ? nb::none() : nb::object(nb::int_(at));
  }

  // |a-b|: of integers exactly.
  nb::object away(uint64_t key) const {
    bool exact = std::strstr(dtype_.name, "int") != nullptr;
    return exact ? nb::object(nb::int_(key)) : nb::object(nb::float_(from_bits(key)));
  }

  Dtype dtype_ = {nullptr, 0, nullptr};
  Array<float> values_;  // which keeps the tables in task_ alive
  Array<uint32_t> order_;
  Task task_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

// Whether two buffers hold the same bytes.
inline bool same(Array<uint8_t> left, Array<uint8_t> right) {
  nb::gil_scoped_release without_gil;
  return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace pyopnb

NB_MODULE(_stats, module) {
  using pyopnb::Stats;
  module.def("same", &pyopnb::same, nb::arg("a"), nb::arg("b"));
  nb::class_<Stats>(module, "Stats")
      .def(nb::init<const std::string&, std::vector<int64_t>, double, double, bool, double,
                    pyopnb::Array<float>, pyopnb::Array<uint32_t>>(),
           nb::arg("dtype"), nb::arg("shape"), nb::arg("rtol"), nb::arg("atol"), nb::arg("details"),
           nb::arg("smallest_normal"), nb::arg("values"), nb::arg("order"))
      .def("add", &Stats::add, nb::arg("a"), nb::arg("b"), nb::arg("at"), nb::arg("threads"))
      .def("totals", &Stats::totals)
      .def("result", &Stats::result);
}