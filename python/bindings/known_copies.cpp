#include "known_copies.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "base/lent_vector.hpp"
#include "engine/recipe/block_ends.hpp"
#include "numpy_array.hpp"
#include "plain_arrays.hpp"

namespace tranship::python {
namespace {

/// Fewest pairs that are copied as blocks when their list has no recipe yet. Shorter lists are read
/// in the usual way, so that their second call makes a recipe.
constexpr Py_ssize_t blocks_least = 64;

/// Most bytes of a list of short copies that are carried with the interpreter's lock held; a tenth
/// of a millisecond.
constexpr std::int64_t short_list_bytes = 1 << 20;

/// Most bytes of a list that the caller's thread carries without asking the engine whether several
/// threads should.
constexpr std::int64_t caller_list_bytes = 8 << 20;

using Known = std::shared_ptr<const KnownRecipe>;

/// Returns the recipe of a copy between two NumPy arrays that the caller's thread carries; null if
/// it is not remembered, or the arrays may share bytes.
Known find_here(Engine& engine, const CopyOptions& options, const PlainArray& source,
                const PlainArray& target) {
  RecipeKey key(options, 1);
  key.add_end(source);
  key.add_end(target);
  if (!key.end_pair(source.address, target.address, false)) return nullptr;
  Known known = engine.find(key);
  const bool here = known && known->recipe.steps[0].carrier == Carrier::here;
  return here ? known : nullptr;
}

bool lie_apart(const KnownRecipe& known, nb::handle source, const PlainArray& from,
               nb::handle target, const PlainArray& to) {
  return known.apart(from.address, to.address) && addresses_decide(source, target);
}

std::optional<BoundEvent> start_here(const std::shared_ptr<Engine>& engine, nb::handle source,
                                     nb::handle target, const CopyOptions& options) {
  PlainArray from;
  PlainArray to;
  if (!read_numpy(source, false, from) || !read_numpy(target, true, to)) return {};
  const Known known = find_here(*engine, options, from, to);
  if (!known || !lie_apart(*known, source, from, target, to)) return {};
  const RecipeStep& step = known->recipe.steps[0];
  if (step.plan->bytes > small_bytes || !engine->moves_known()) return {};
  Carriers::move(step, from.address, to.address);
  return BoundEvent{Event(step.plan), engine};
}

/// Pairs of arrays of one GPU, as they are read.
class GpuPairs {
 public:
  GpuPairs(const std::shared_ptr<Engine>& engine, Before& before, Py_ssize_t count)
      : engine_(engine), before_(before), blocks_(count >= blocks_least), several_(count > 1) {
    for (LentVector<std::int64_t>* list : {&sources_, &targets_, &lengths_}) (*list)->clear();
  }

  /// Reads a pair, and adds it to the key until the key is too long. Returns false if the list can
  /// go neither by its key nor as blocks: an array does not lie on the GPU of the others, or the
  /// key is too long and a pair is no block.
  bool add(nb::handle source, nb::handle target, RecipeKey& key) {
    ReadArray from;
    ReadArray to;
    if (!read(source, false, from)) return false;
    Shape shape;
    if (blocks_) shape.set(from);
    const std::byte* const address = from.address;
    const std::int64_t type = from.type;
    const std::int64_t bytes = blocks_ ? block_bytes(from) : 0;
    if (key_fits_) key.add_end(from);
    if (!read(target, true, to)) return false;
    if (key_fits_) key.add_end(to);
    if (blocks_) {
      blocks_ = bytes > 0 && block_bytes(to) > 0 && type == to.type && shape.is_of(to);
      sources_->push_back(number_of(address));
      targets_->push_back(number_of(to.address));
      lengths_->push_back(bytes);
    }
    if (source_first_ == nullptr) {
      source_first_ = address;
      target_first_ = to.address;
    }
    if (key_fits_) {
      key_fits_ = several_ ? key.end_placed_pair(address, to.address)
                           : key.end_pair(address, to.address, true);
    }
    return key_fits_ || blocks_;
  }

  /// Whether each pair copies one block to another, and there are many.
  bool blocks() const { return blocks_; }
  bool key_fits() const { return key_fits_; }

  /// Returns the arrays of the first pair, without owners.
  CopyPair first_ends() const {
    CopyPair ends;
    ends.source.place.address = const_cast<std::byte*>(source_first_);
    ends.target.place.address = target_first_;
    for (Array* array : {&ends.source, &ends.target}) {
      array->memory_kind = MemoryKind::device;
      array->device = device_;
    }
    return ends;
  }

  /// Starts the blocks; nothing if no single launch carries them.
  std::optional<BoundEvent> start_blocks(CopyOptions options, std::shared_ptr<void> owner) {
    const BlockAddresses blocks{*sources_, *targets_, *lengths_};
    const auto ends = unwrap(block_ends(device_, blocks, owner));
    if (!ends) return {};
    const Blocks parts{{*sources_, *targets_, *lengths_}};
    auto event = start_in_order(engine_, before_, options.start, [&] {
      return engine_->copy(CopyRequest{{&*ends, 1}, parts, options});
    });
    return event.event.plan() ? std::optional(std::move(event)) : std::nullopt;
  }

 private:
  /// The shape of a source, which is kept while its target is read.
  class Shape {
   public:
    Shape() {}  // the extents are not set to zeros: lists have thousands of arrays
    void set(const PlainArray& array) {
      rank_ = array.rank;
      std::copy_n(array.shape, rank_, extents_.begin());
    }
    bool is_of(const PlainArray& array) const {
      return rank_ == array.rank && std::equal(array.shape, array.shape + rank_, extents_.begin());
    }

   private:
    int rank_ = 0;
    Point extents_;
  };

  static std::int64_t number_of(const std::byte* address) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address));
  }

  bool read(nb::handle object, bool writable, ReadArray& array) {
    StreamAsked asked;
    if (!read_gpu_array(object, writable, array, asked)) return false;
    if (device_ >= 0 && array.device != device_) return false;
    device_ = array.device;
    before_.note_device(device_);
    return asked == asked_ || before_.follows() != Follows::current || ask(asked, object);
  }

  /// Orders the copy with the stream in which the array's library works now.
  bool ask(const StreamAsked& asked, nb::handle array) {
    const auto stream = current_stream(asked, array, device_);
    if (!stream) return false;
    before_.add_current({*stream, device_});
    asked_ = asked;
    return true;
  }

  const std::shared_ptr<Engine>& engine_;
  Before& before_;
  /// There are at least blocks_least pairs, and all that were read are blocks; the lists below have
  /// their addresses and lengths.
  bool blocks_;
  bool several_;
  bool key_fits_ = true;
  int device_ = -1;
  StreamAsked asked_;  ///< what gave the last stream; empty for arrays of this package
  const std::byte* source_first_ = nullptr;
  std::byte* target_first_ = nullptr;
  LentVector<std::int64_t> sources_;
  LentVector<std::int64_t> targets_;
  LentVector<std::int64_t> lengths_;
};

/// Starts a recipe that is remembered for arrays of one GPU.
std::optional<BoundEvent> start_on_gpu(const std::shared_ptr<Engine>& engine, const Known& known,
                                       const CopyPair& ends, StartOptions& options,
                                       const Before& before, const std::shared_ptr<void>& owner) {
  if (!known || known->recipe.steps.size() != 1) return {};
  return start_in_order(engine, before, options,
                        [&] { return engine->start(*known, ends, options, owner); });
}

std::optional<BoundEvent> start_gpu_arrays(const std::shared_ptr<Engine>& engine, nb::handle source,
                                           nb::handle target, CopyOptions options, Before& before) {
  if (engine->gpu_side() == nullptr) return {};
  GpuPairs pair(engine, before, 1);
  RecipeKey key(options, 1);
  if (!pair.add(source, target, key)) return {};
  key.set_in_streams(!before.no_streams());
  const Known known = engine->find(key);
  const CopyPair ends = pair.first_ends();
  if (!known || !known->apart(ends.source.place.address, ends.target.place.address)) return {};
  return start_on_gpu(engine, known, ends, options.start, before,
                      keep(nb::make_tuple(source, target)));
}

/// Known copies of a list, which are carried once all are found.
class KnownCopies {
 public:
  explicit KnownCopies(Py_ssize_t count) { copies_.reserve(static_cast<std::size_t>(count)); }

  bool add(Engine& engine, const CopyOptions& options, nb::handle source, nb::handle target) {
    const NumpyArray* from = plain_numpy(source);
    const NumpyArray* to = plain_numpy(target);
    if (from == nullptr || to == nullptr || !to->writable()) return false;
    const bool same = from_ != nullptr && from->same_form(*from_) && to->same_form(*to_);
    if (!same && !find(engine, options, source, target)) {
      return copy_new(engine, options, source, target);
    }
    from_ = from;
    to_ = to;
    const KnownRecipe& known = *recipes_.back();
    const auto* from_address = reinterpret_cast<const std::byte*>(from->data);
    auto* to_address = reinterpret_cast<std::byte*>(to->data);
    if (!known.apart(from_address, to_address) || !addresses_decide(source, target)) return false;
    copies_.push_back({&known.recipe.steps[0], from_address, to_address});
    if (!plan_) plan_ = known.recipe.plan();
    bytes_ += known.recipe.steps[0].plan->bytes;
    return bytes_ <= caller_list_bytes;
  }

  /// Carries all. list: The pairs, which the caller keeps.
  void carry(nb::handle list) const {
    std::vector<nb::object> held;  // NumPy resizes no array that others refer to
    std::optional<Released> released;
    if (bytes_ > short_list_bytes) {
      held.reserve(2 * copies_.size());
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list.ptr()); ++k) {
        PyObject* pair = PyTuple_GET_ITEM(list.ptr(), k);
        for (const Py_ssize_t end : {0, 1}) held.push_back(nb::borrow(PyTuple_GET_ITEM(pair, end)));
      }
      released.emplace();
    }
    for (const Found& one : copies_) Carriers::move(*one.step, one.source, one.target);
  }

  /// Returns the event of all, which have ended.
  Event event() const {
    Event event(plan_);
    event.add_ended(bytes_ + new_bytes_ - (plan_ ? plan_->bytes : 0));
    return event;
  }

 private:
  /// Finds the recipe of a pair.
  bool find(Engine& engine, const CopyOptions& options, nb::handle source, nb::handle target) {
    PlainArray from;
    PlainArray to;
    from_ = to_ = nullptr;
    if (!read_numpy(source, false, from) || !read_numpy(target, true, to)) return false;
    Known known = find_here(engine, options, from, to);
    if (!known) return false;
    recipes_.push_back(std::move(known));
    return true;
  }

  /// Copies a pair at once whose recipe is not known, so that it is known later.
  bool copy_new(Engine& engine, const CopyOptions& options, nb::handle source, nb::handle target) {
    const CopyPair ends{array_of(source, false), array_of(target, true)};
    new_bytes_ += ends.source.view.bytes();
    if (new_bytes_ > short_list_bytes) return false;
    const auto event = run([&] { return engine.copy(ends.source, ends.target, options); });
    if (!event || !event->ended_well()) return false;
    if (!plan_) plan_ = event->plan();
    return true;
  }

  struct Found {
    const RecipeStep* step;
    const std::byte* source;
    std::byte* target;
  };

  std::vector<Known> recipes_;
  std::vector<Found> copies_;
  /// Arrays of the pair before, if `recipes_` ends with that pair's recipe; else null.
  const NumpyArray* from_ = nullptr;
  const NumpyArray* to_ = nullptr;
  std::shared_ptr<const Plan> plan_;  ///< of the first pair
  std::int64_t bytes_ = 0;
  std::int64_t new_bytes_ = 0;
};

/// Returns the two arrays of a tuple; nothing if it is none of two.
std::optional<std::pair<nb::handle, nb::handle>> ends_of(PyObject* pair) {
  if (PyTuple_CheckExact(pair) == 0 || PyTuple_GET_SIZE(pair) != 2) return {};
  return std::pair{nb::handle(PyTuple_GET_ITEM(pair, 0)), nb::handle(PyTuple_GET_ITEM(pair, 1))};
}

template <typename Add>
bool add_each(nb::handle list, const Add& add) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list.ptr()); ++k) {
    const auto ends = ends_of(PyTuple_GET_ITEM(list.ptr(), k));
    if (!ends || !add(ends->first, ends->second)) return false;
  }
  return true;
}

/// Returns the bytes of a contiguous NumPy array of plain elements; 0 of any other.
std::int64_t contiguous_bytes(const NumpyArray& array, nb::handle object) {
  if (!array.contiguous()) return 0;
  if (const NumpyType* type = type_of(array.type)) {
    return std::accumulate(array.shape, array.shape + array.rank, type->bytes, std::multiplies<>());
  }
  const nb::handle dtype(array.type);
  const bool plain = !nb::cast<bool>(dtype.attr("hasobject"));
  return plain ? nb::cast<std::int64_t>(object.attr("nbytes")) : 0;
}

}  // namespace

bool pack_known(Engine& engine, nb::handle places, nb::handle packed, const Datatype& type,
                bool unpacks) {
  const NumpyArray* one = plain_numpy(places);
  const NumpyArray* other = plain_numpy(packed);
  if (one == nullptr || other == nullptr || type.bytes() > small_bytes) return false;
  if (!(unpacks ? one : other)->writable() || !engine.moves_known()) return false;
  const RecipeKey::Pack pack{type, contiguous_bytes(*one, places), contiguous_bytes(*other, packed),
                             unpacks};
  if (pack.places_bytes == 0 || pack.packed_bytes == 0) return false;
  const Known known = engine.find(RecipeKey::of(pack));
  if (!known || known->recipe.steps[0].carrier != Carrier::here) return false;
  const auto [from, to] = unpacks ? std::pair(other, one) : std::pair(one, other);
  const auto* source = reinterpret_cast<const std::byte*>(from->data);
  auto* target = reinterpret_cast<std::byte*>(to->data);
  if (!known->apart(source, target) || !addresses_decide(places, packed)) return false;
  Carriers::move(known->recipe.steps[0], source, target);
  return true;
}

std::optional<BoundEvent> start_known(const std::shared_ptr<Engine>& engine, nb::handle source,
                                      nb::handle target, const CopyOptions& options,
                                      Before& before) {
  if (plain_numpy(source) != nullptr || plain_numpy(target) != nullptr) {
    return before.empty() ? start_here(engine, source, target, options) : std::nullopt;
  }
  return start_gpu_arrays(engine, source, target, options, before);
}

std::optional<BoundEvent> start_known_list(const std::shared_ptr<Engine>& engine,
                                           const nb::tuple& list, const CopyOptions& given,
                                           Before& before) {
  const Py_ssize_t count = PyTuple_GET_SIZE(list.ptr());
  const auto first = count > 0 ? ends_of(PyTuple_GET_ITEM(list.ptr(), 0)) : std::nullopt;
  if (!first) return {};
  if (plain_numpy(first->first) != nullptr) {
    if (!before.empty() || !engine->moves_known()) return {};
    KnownCopies copies(count);
    const bool all = add_each(list, [&](nb::handle source, nb::handle target) {
      return copies.add(*engine, given, source, target);
    });
    if (!all) return {};
    copies.carry(list);
    return BoundEvent{copies.event(), engine};
  }
  if (engine->gpu_side() == nullptr) return {};
  CopyOptions options = given;
  GpuPairs read(engine, before, count);
  RecipeKey key(options, static_cast<std::size_t>(count));
  const bool all = add_each(
      list, [&](nb::handle source, nb::handle target) { return read.add(source, target, key); });
  if (!all) return {};
  const auto owner = keep(list);
  key.set_in_streams(!before.no_streams());
  if (read.key_fits()) {
    const Known known = engine->find(key);
    if (auto event = start_on_gpu(engine, known, read.first_ends(), options.start, before, owner)) {
      return event;
    }
  }
  // A list that comes again is remembered as a list of pairs, whose table stays on the GPU.
  const bool again = read.key_fits() && read.blocks() && engine->comes_again(key);
  return read.blocks() && !again ? read.start_blocks(options, owner) : std::nullopt;
}

}  // namespace tranship::python
