// The module pyopnb.diffs.arrays._stats: what two arrays differ in, in one walk over both.
//
// Python hands over chunk after chunk of two arrays, so that it can be interrupted between two of them and tell how far it is.
// Each chunk is split among a few lanes (lane.h), always in the same way, and threads take the lanes that are left: so the
// result does not depend on how many threads there were. The GIL is released meanwhile; the arrays' buffers are held.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "lane.h"

namespace nb = nanobind;
using namespace pyopnb;

namespace {

// The bytes of an object, held for as long as this lives.
class Buffer {
 public:
  explicit Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE)) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }

  template <class Item>
  std::vector<Item> copy() const {
    std::vector<Item> items(size() / sizeof(Item));
    if (!items.empty()) std::memcpy(items.data(), data(), items.size() * sizeof(Item));
    return items;
  }

 private:
  Py_buffer view_;
};

struct Dtype {
  const char* name;  // family and bytes of an element
  size_t itemsize;
  Lane::Count count;
};

constexpr Dtype kDtypes[] = {
    {"float1", 1, &Lane::count_floats<Tabulated<uint8_t>>},
    {"float2", 2, &Lane::count_floats<Tabulated<uint16_t>>},
    {"float4", 4, &Lane::count_floats<Float32>},
    {"float8", 8, &Lane::count_floats<Float64>},
    {"complex8", 8, &Lane::count_complex<float>},
    {"complex16", 16, &Lane::count_complex<double>},
    {"int1", 1, &Lane::count_integers<int8_t>},
    {"int2", 2, &Lane::count_integers<int16_t>},
    {"int4", 4, &Lane::count_integers<int32_t>},
    {"int8", 8, &Lane::count_long_integers<int64_t>},
    {"uint1", 1, &Lane::count_integers<uint8_t>},
    {"uint2", 2, &Lane::count_integers<uint16_t>},
    {"uint4", 4, &Lane::count_integers<uint32_t>},
    {"uint8", 8, &Lane::count_long_integers<uint64_t>},
};

Dtype dtype_of(const std::string& name) {
  for (const Dtype& dtype : kDtypes) {
    if (name == dtype.name) return dtype;
  }
  throw nb::value_error(("no such dtype: " + name).c_str());
}

nb::object big(const WideSum& sum) { return (nb::int_(sum.high) << nb::int_(64)) | nb::int_(sum.low); }

nb::object position(int64_t at) { return at == kNowhere ? nb::none() : nb::object(nb::int_(at)); }

template <class Counts, class Key>
nb::dict nonzero(const Counts& counts, Key key) {
  nb::dict found;
  for (size_t i = 0; i < counts.size(); i++) {
    if (counts[i]) found[key(i)] = counts[i];
  }
  return found;
}

class Stats {
 public:
  Stats(const std::string& dtype, std::vector<int64_t> shape, double rtol, double atol, int64_t stride, double smallest_normal,
        nb::object values, nb::object order)
      : dtype_(dtype_of(dtype)), exact_(dtype.find("int") != std::string::npos), values_(values), order_(order) {
    int64_t rows = 1;
    for (size_t axis = 0; axis + 1 < shape.size(); axis++) rows *= shape[axis];
    task_.columns = shape.empty() ? 1 : shape.back();
    task_.rows = rows;
    task_.shape = std::move(shape);
    task_.exact = exact_;
    task_.rtol = exact_ ? 0 : rtol, task_.atol = exact_ ? std::floor(atol) : atol;
    task_.allowed = atol < 0x1p64 ? static_cast<uint64_t>(atol) : UINT64_MAX;
    task_.stride = stride;
    task_.smallest_normal = smallest_normal;
    task_.values = reinterpret_cast<const float*>(values_.data());
    task_.order = reinterpret_cast<const int32_t*>(order_.data());
    size_t patterns = size_t(1) << 8 * dtype_.itemsize % 64;
    if (dtype.compare(0, 5, "float") == 0 && dtype_.itemsize < 4 &&
        (values_.size() < patterns * sizeof(float) || order_.size() < patterns * sizeof(int32_t))) {
      throw nb::value_error("the tables of a float dtype have a row for each pattern of its bits");
    }
  }

  Stats(const Stats&) = delete;

  // Counts elements that begin at a position of the whole: contiguous, in the machine's byte order.
  void add(nb::object a, nb::object b, int64_t at, size_t threads) {
    Buffer left(a), right(b);
    if (left.size() != right.size() || left.size() % dtype_.itemsize) {
      throw nb::value_error("two buffers of the same number of whole elements are compared");
    }
    size_t count = left.size() / dtype_.itemsize;
    size_t lanes = count < kShared ? 1 : kLanes;
    while (lanes_.size() < lanes) lanes_.push_back(std::make_unique<Lane>(task_));
    size_t share = (count / lanes / kBlock + 1) * kBlock;
    std::atomic<size_t> next = 0;
    auto work = [&] {
      for (size_t lane; (lane = next++) < lanes;) {
        size_t end = std::min(count, (lane + 1) * share);
        for (size_t done = lane * share; done < end; done += kBlock) {
          size_t offset = done * dtype_.itemsize;
          (lanes_[lane].get()->*dtype_.count)(left.data() + offset, right.data() + offset, std::min(kBlock, end - done),
                                              at + static_cast<int64_t>(done));
        }
      }
    };
    nb::gil_scoped_release without_gil;
    std::vector<std::exception_ptr> failures(lanes);
    auto guarded = [&](size_t worker) {
      try {
        work();
      } catch (...) {
        failures[worker] = std::current_exception();
      }
    };
    std::vector<std::thread> helpers;
    for (size_t worker = 1; worker < std::min(threads, lanes); worker++) {
      try {
        helpers.emplace_back(guarded, worker);
      } catch (const std::system_error&) {
        break;  // the system has no more threads: those that there are do the work
      }
    }
    guarded(0);
    for (std::thread& helper : helpers) helper.join();
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  // How many elements differ in their bits and in their values, and are over the tolerance.
  std::tuple<int64_t, int64_t, int64_t> totals() const {
    int64_t bits = 0, differing = 0, over = 0;
    for (const auto& lane : lanes_) bits += lane->bits, differing += lane->differing, over += lane->over;
    return {bits, differing, over};
  }

  nb::dict result() {
    if (!task_.stride) throw nb::value_error("with a stride of 0 there are only totals");
    if (lanes_.empty()) lanes_.push_back(std::make_unique<Lane>(task_));
    Lane& all = *lanes_.front();
    for (size_t lane = 1; lane < lanes_.size(); lane++) all.merge(*lanes_[lane]);
    lanes_.erase(lanes_.begin() + 1, lanes_.end());
    nb::dict facts;
    facts["bits"] = all.bits;
    facts["differing"] = all.differing;
    facts["over"] = all.over;
    facts["finite"] = all.finite;
    facts["odd"] = all.odd_count;
    facts["classes"] = nonzero(all.classes, [](size_t i) { return nb::str(kClassNames[i]); });
    facts["total"] = all.sums.total;
    facts["bias"] = all.sums.bias;
    facts["squares"] = all.sums.squares;
    facts["left"] = all.sums.left;
    facts["right"] = all.sums.right;
    facts["product"] = all.sums.product;
    facts["whole_total"] = big(all.whole_above) + big(all.whole_below);
    facts["whole_bias"] = big(all.whole_above) - big(all.whole_below);
    facts["whole_largest"] = all.whole_largest;
    facts["largest"] = all.largest;
    facts["peak"] = all.peak;
    facts["at_zero"] = all.at_zero;
    facts["parts"] = nb::make_tuple(all.real_parts, all.imaginary_parts);
    facts["ulp"] = all.ulp;
    nb::list worst;
    for (const Worst& element : all.worst) worst.append(nb::make_tuple(element.at, away(element.key), element.ulp));
    facts["worst"] = worst;
    facts["first_odd"] = nb::cast(all.odd);
    facts["first_over"] = position(all.first_over);
    facts["first_differing"] = position(all.first_differing);
    facts["corners"] = corners(all.hull);
    facts["sizes"] = nonzero(all.sizes, [](size_t i) { return nb::int_(static_cast<int64_t>(i) - 1); });
    facts["ulps"] = nonzero(all.ulps, [](size_t i) { return nb::int_(i); });
    nb::dict spread;
    for (int64_t i = 0; i < static_cast<int64_t>(all.spread.size()); i++) {
      for (size_t j = 0; j < all.spread[static_cast<size_t>(i)].size(); j++) {
        uint32_t count = all.spread[static_cast<size_t>(i)][j];
        if (count) spread[nb::make_tuple(i - 1023, static_cast<int64_t>(j) - 1023)] = count;
      }
    }
    facts["spread"] = spread;
    facts["grid"] = grid(all.heatmap);
    nb::list axes;
    const auto& counts = all.axes.counts();
    for (size_t axis = 0; axis < counts.size(); axis++) {
      if (counts[axis].empty()) continue;
      auto most = std::max_element(counts[axis].begin(), counts[axis].end());
      int64_t hit = 0, seen = 0;
      for (int64_t count : counts[axis]) hit += count > 0, seen += count;
      axes.append(nb::make_tuple(axis, counts[axis].size(), hit, most - counts[axis].begin(), *most, seen));
    }
    facts["axes"] = axes;
    return facts;
  }

  // |a-b|: of integers exactly.
  nb::object away(uint64_t key) const {
    if (!exact_) return nb::float_(from_bits(key));
    return nb::int_(dtype_.itemsize == 8 ? key : static_cast<uint64_t>(from_bits(key)));
  }

  static nb::tuple corners(HullBuilder& hull) {
    nb::list found;
    for (const Point& corner : hull.corners()) found.append(nb::make_tuple(corner.t, corner.d));
    return nb::tuple(found);
  }

 private:
  static constexpr size_t kLanes = 4;
  static constexpr size_t kShared = 1 << 16;  // elements: fewer are done before a thread has begun

  // By eighths of an octave, as in the histogram; -1 where nothing differs.
  static nb::tuple grid(Heatmap& heatmap) {
    nb::list rows, row;
    for (double field : heatmap.fields()) {
      row.append(field > 0 ? static_cast<int64_t>(bits_of(field) >> Lane::kEighth) : -1);
      if (static_cast<int64_t>(nb::len(row)) == heatmap.width()) {
        rows.append(nb::tuple(row));
        row = nb::list();
      }
    }
    return nb::tuple(rows);
  }

  Dtype dtype_;
  bool exact_;
  Buffer values_, order_;  // of the tables in task_
  Task task_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

void add_to_hull(HullBuilder& hull, nb::object t, nb::object d) {
  auto x = Buffer(t).copy<double>(), y = Buffer(d).copy<double>();
  if (x.size() != y.size()) throw nb::value_error("as many t as d");
  hull.add(x.data(), y.data(), x.size());
}

}  // namespace

NB_MODULE(_stats, module) {
  nb::class_<HullBuilder>(module, "HullBuilder")
      .def(nb::init<>())
      .def("add", &add_to_hull, nb::arg("t"), nb::arg("d"))
      .def("corners", &Stats::corners);
  nb::class_<Stats>(module, "Stats")
      .def(nb::init<const std::string&, std::vector<int64_t>, double, double, int64_t, double, nb::object, nb::object>(),
           nb::arg("dtype"), nb::arg("shape"), nb::arg("rtol"), nb::arg("atol"), nb::arg("stride"), nb::arg("smallest_normal"),
           nb::arg("values"), nb::arg("order"))
      .def("add", &Stats::add, nb::arg("a"), nb::arg("b"), nb::arg("at"), nb::arg("threads"))
      .def("totals", &Stats::totals)
      .def("result", &Stats::result);
}
