#include "plain_copies.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "interpreter.hpp"
#include "numpy_array.hpp"
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

/// A short copy within memory that a copy before has checked and planned.
struct PlainCopy {
  /// Valid until another copy is remembered; null: the copy is not known.
  const std::shared_ptr<const Plan>* plan = nullptr;
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
};

/// Returns the copy of one array to another; nothing if it is not known, the memory between their
/// first and last bytes overlaps, or one may be mapped at a second address.
PlainCopy find(const Engine& engine, nb::handle source, nb::handle target) {
  const NumpyArray* from = plain_numpy(source);
  const NumpyArray* to = plain_numpy(target);
  if (from == nullptr || to == nullptr || from->rank > rank_max || to->rank > rank_max) return {};
  const Entry& entry = entry_of(*from, *to);
  const bool known = entry.plan && to->writable() && entry.source.describes(*from) &&
                     entry.target.describes(*to) && entry.engine == engine.number();
  if (!known) return {};
  const bool apart = from->data + entry.source.end_bytes <= to->data + entry.target.begin_bytes ||
                     to->data + entry.target.end_bytes <= from->data + entry.source.begin_bytes;
  if (!apart || !addresses_decide(source, target)) return {};
  return {&entry.plan, reinterpret_cast<const std::byte*>(from->data),
          reinterpret_cast<std::byte*>(to->data)};
}

/// Carries a short copy between NumPy arrays on this thread, and remembers it.
std::optional<Event> copy_short(Engine& engine, nb::handle source, nb::handle target) {
  if (plain_numpy(source) == nullptr || plain_numpy(target) == nullptr) return {};
  const CopyPair ends{array_of(source, false, Hold::nothing),
                      array_of(target, true, Hold::nothing)};
  if (ends.source.view.bytes() > small_bytes) return {};
  auto event = engine.copy_now(ends.source, ends.target, {});
  if (event) remember_copy(engine, source, target, ends, event->plan());
  return event;
}

/// Most bytes of a list of short copies that are carried with the interpreter's lock held; a tenth
/// of a millisecond.
constexpr std::int64_t short_list_bytes = 1 << 20;

/// Known copies of a list, which are carried once all are found.
class KnownCopies {
 public:
  explicit KnownCopies(Py_ssize_t count) { copies_.reserve(static_cast<std::size_t>(count)); }

  /// pair: The tuple of both arrays, which the caller keeps.
  void add(const PlainCopy& known, PyObject* pair) {
    if (plans_.empty() || plans_.back() != *known.plan) plans_.push_back(*known.plan);
    copies_.push_back({plans_.back().get(), known.source, known.target, pair});
    bytes_ += plans_.back()->bytes;
  }

  /// Carries all; returns false if the engine does not carry known copies.
  bool carry(const Engine& engine) const {
    std::vector<nb::object> held;  // NumPy resizes no array that others refer to
    std::optional<Released> released;
    if (bytes_ > short_list_bytes) {
      held.reserve(2 * copies_.size());
      for (const Found& one : copies_) {
        for (const Py_ssize_t end : {0, 1})
          held.push_back(nb::borrow(PyTuple_GET_ITEM(one.pair, end)));
      }
      released.emplace();
    }
    return std::all_of(copies_.begin(), copies_.end(), [&](const Found& one) {
      return engine.copy_again(*one.plan, one.source, one.target);
    });
  }

 private:
  struct Found {
    const Plan* plan;
    const std::byte* source;
    std::byte* target;
    PyObject* pair;
  };

  std::vector<std::shared_ptr<const Plan>> plans_;
  std::vector<Found> copies_;
  std::int64_t bytes_ = 0;
};

}  // namespace

void remember_copy(const Engine& engine, nb::handle source, nb::handle target, const CopyPair& ends,
                   const std::shared_ptr<const Plan>& plan) {
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

std::optional<Event> copy_known(const Engine& engine, nb::handle source, nb::handle target) {
  const PlainCopy known = find(engine, source, target);
  const bool carried =
      known.plan != nullptr && engine.copy_again(**known.plan, known.source, known.target);
  return carried ? std::optional(Event(*known.plan)) : std::nullopt;
}

std::optional<Event> copy_short_list(Engine& engine, nb::handle given) {
  if (PyList_CheckExact(given.ptr()) == 0 && PyTuple_CheckExact(given.ptr()) == 0) return {};
  // Another thread may change the list while the interpreter's lock is released.
  const nb::object pairs = nb::steal(PySequence_Tuple(given.ptr()));
  if (!pairs.is_valid()) throw nb::python_error();
  const Py_ssize_t count = PyTuple_GET_SIZE(pairs.ptr());
  KnownCopies known(count);
  std::optional<Event> first;
  std::int64_t new_bytes = 0;
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* pair = PyTuple_GET_ITEM(pairs.ptr(), k);
    if (PyTuple_CheckExact(pair) == 0 || PyTuple_GET_SIZE(pair) != 2) return {};
    const nb::handle source = PyTuple_GET_ITEM(pair, 0);
    const nb::handle target = PyTuple_GET_ITEM(pair, 1);
    if (const PlainCopy one = find(engine, source, target); one.plan != nullptr) {
      if (k == 0) first = Event(*one.plan);
      known.add(one, pair);
      continue;
    }
    auto event = copy_short(engine, source, target);
    if (!event) return {};
    new_bytes += event->plan()->bytes;
    if (new_bytes > short_list_bytes) return {};
    if (k == 0) first = std::move(event);
  }
  return known.carry(engine) ? std::move(first) : std::nullopt;
}

}  // namespace tranship::python
