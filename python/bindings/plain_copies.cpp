#include "plain_copies.hpp"

#include <algorithm>
#include <utility>

#include "remembered.hpp"

namespace tranship::python {
namespace {

/// Most dimensions of arrays whose copies are remembered.
constexpr int rank_max = 4;

/// What NumPy says of an array, and the bytes that its elements span, counted from its data.
struct Side {
  PyObject* type = nullptr;  ///< kept for ever, so that its address is not another type's
  int rank = 0;
  std::array<Py_ssize_t, rank_max> shape{};
  std::array<Py_ssize_t, rank_max> strides{};
  std::int64_t begin_bytes = 0;
  std::int64_t end_bytes = 0;

  bool describes(const NumpyArray& array) const {
    if (array.type != type || array.rank != rank) return false;
    for (int k = 0; k < rank; ++k) {
      const auto index = static_cast<std::size_t>(k);
      if (array.shape[k] != shape[index] || array.strides[k] != strides[index]) return false;
    }
    return true;
  }

  void set(const NumpyArray& array, const Mapping& mapping) {
    Py_INCREF(array.type);
    Py_XDECREF(std::exchange(type, array.type));
    rank = array.rank;
    std::copy_n(array.shape, rank, shape.begin());
    std::copy_n(array.strides, rank, strides.begin());
    begin_bytes = mapping.begin_bytes();
    end_bytes = mapping.end_bytes();
  }
};

struct Entry {
  std::uint64_t engine = 0;  ///< Engine::number()
  Side source;
  Side target;
  std::shared_ptr<const Plan> plan;
};

/// Returns the place of copies between arrays like these.
Entry& entry_of(const NumpyArray& source, const NumpyArray& target) {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(source.type);
  for (const NumpyArray* array : {&source, &target}) {
    for (int k = 0; k < array->rank; ++k) {
      hash = (hash ^ static_cast<std::uint64_t>(array->shape[k])) * 0x9e3779b97f4a7c15u;
      hash = (hash ^ static_cast<std::uint64_t>(array->strides[k])) * 0x9e3779b97f4a7c15u;
    }
  }
  return remembered<Entry>(hash);
}

}  // namespace

PlainCopy PlainCopies::find(const Engine& engine, nb::handle source, nb::handle target) {
  const NumpyArray* from = plain_numpy(source);
  const NumpyArray* to = plain_numpy(target);
  if (from == nullptr || to == nullptr || from->rank > rank_max || to->rank > rank_max) return {};
  const Entry& entry = entry_of(*from, *to);
  const bool known = entry.plan && to->writable() && entry.source.describes(*from) &&
                     entry.target.describes(*to) && entry.engine == engine.number();
  if (!known) return {};
  const bool apart = from->data + entry.source.end_bytes <= to->data + entry.target.begin_bytes ||
                     to->data + entry.target.end_bytes <= from->data + entry.source.begin_bytes;
  if (!apart) return {};
  return {&entry.plan, reinterpret_cast<const std::byte*>(from->data),
          reinterpret_cast<std::byte*>(to->data)};
}

void PlainCopies::add(const Engine& engine, nb::handle source, nb::handle target,
                      const CopyPair& ends, const std::shared_ptr<const Plan>& plan) {
  const NumpyArray* from = plain_numpy(source);
  const NumpyArray* to = plain_numpy(target);
  if (from == nullptr || to == nullptr || from->rank > rank_max || to->rank > rank_max) return;
  const auto at_data = [](const Array& array, const NumpyArray& numpy) {
    return array.place.address == reinterpret_cast<const std::byte*>(numpy.data);
  };
  if (!at_data(ends.source, *from) || !at_data(ends.target, *to)) return;
  Entry& entry = entry_of(*from, *to);
  entry.engine = engine.number();
  entry.source.set(*from, *ends.source.view.mapping);
  entry.target.set(*to, *ends.target.view.mapping);
  entry.plan = plan;
}

}  // namespace tranship::python
