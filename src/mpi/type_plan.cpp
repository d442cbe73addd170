#include "mpi/type_plan.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "mpi/report.hpp"

namespace tranship::mpi {
namespace {

/// The plan of a type that is being made, or was. Duplicates of the type share it.
struct Kept {
  std::once_flag once;
  std::shared_ptr<TypePlan> plan;  ///< null: left to MPI
};

/// The attribute's value.
struct Attribute {
  std::shared_ptr<Kept> kept;
  std::uint64_t handle = 0;  ///< the type's, once it is known
};

/// The types that were committed, by their handles. MPI is not asked about other handles, which may
/// be wrong: the call that uses one says so, in its own way.
struct Committed {
  std::shared_mutex mutex;
  std::unordered_map<std::uint64_t, std::shared_ptr<Kept>> all;
};

Committed& committed() {
  static Committed* const types = new Committed;
  return *types;
}

/// Counts the types that began or ended, after which a handle may be another type's.
std::atomic<std::uint64_t> generation{1};
std::atomic<int> keyval{MPI_KEYVAL_INVALID};
std::mutex keyval_mutex;

int copy_attribute(MPI_Datatype, int, void*, void* given, void* made, int* flag) {
  *flag = 0;
  // MPI does not say the duplicate's handle: see keep_plan().
  auto* copy = new (std::nothrow) Attribute{static_cast<Attribute*>(given)->kept, 0};
  if (copy == nullptr) return MPI_SUCCESS;
  *static_cast<void**>(made) = copy;
  *flag = 1;
  return MPI_SUCCESS;
}

int delete_attribute(MPI_Datatype, int, void* value, void*) {
  const std::unique_ptr<Attribute> attribute(static_cast<Attribute*>(value));
  Committed& types = committed();
  const std::unique_lock lock(types.mutex);
  const auto found = types.all.find(attribute->handle);
  if (found != types.all.end() && found->second == attribute->kept) types.all.erase(found);
  generation.fetch_add(1, std::memory_order_release);
  return MPI_SUCCESS;
}

int keyval_at_hand() {
  int key = keyval.load(std::memory_order_acquire);
  if (key != MPI_KEYVAL_INVALID) return key;
  const std::lock_guard lock(keyval_mutex);
  key = keyval.load(std::memory_order_relaxed);
  if (key != MPI_KEYVAL_INVALID) return key;
  if (PMPI_Type_create_keyval(&copy_attribute, &delete_attribute, &key, nullptr) != MPI_SUCCESS) {
    return MPI_KEYVAL_INVALID;
  }
  keyval.store(key, std::memory_order_release);
  return key;
}

/// Returns the attribute of a type that exists.
Attribute* attribute_of(MPI_Datatype type, int key) {
  void* value = nullptr;
  int found = 0;
  if (PMPI_Type_get_attr(type, key, reinterpret_cast<void*>(&value), &found) != MPI_SUCCESS) {
    return nullptr;
  }
  return found != 0 ? static_cast<Attribute*>(value) : nullptr;
}

std::shared_ptr<TypePlan> make_plan(MPI_Datatype type) {
  auto read = read_type(type);
  if (!read) {
    report().type_left_alone();
    return nullptr;
  }
  if (read->type.bytes() == 0) return nullptr;
  return std::make_shared<TypePlan>(std::move(*read));
}

/// What a thread remembers of the types that it used, by their handles.
struct Remembered {
  std::uint64_t handle = 0;
  std::uint64_t generation = 0;
  std::shared_ptr<TypePlan> plan;
  std::shared_ptr<const Items> items;  ///< the latest
};

}  // namespace

std::shared_ptr<const Items> make_items(const ReadType& one, std::int64_t count) {
  Datatype all = types::contiguous(count, one.type);
  const std::int64_t run_bytes = all.bytes() / std::max<std::int64_t>(all.runs(), 1);
  const TypeShape shape{one.listed, run_bytes, all.bytes()};
  Items made{count, one, all, Packer(all)};
  made.contiguous = all.runs() == 1 && all.true_lower_bound() == 0;
  for (std::size_t task = 0; task < tasks; ++task) {
    made.faster[task] = packing_is_faster(static_cast<Task>(task), shape);
  }
  return std::make_shared<const Items>(std::move(made));
}

std::shared_ptr<const Items> TypePlan::items(std::int64_t count) {
  constexpr std::size_t known_max = 32;
  const std::lock_guard lock(mutex_);
  for (const auto& one : known_) {
    if (one->count == count) return one;
  }
  auto kept = make_items(type_, count);
  if (known_.size() < known_max) {
    known_.push_back(kept);
  } else {
    known_[next_] = kept;
    next_ = (next_ + 1) % known_max;
  }
  return kept;
}

void keep_plan(MPI_Datatype type) {
  const int key = keyval_at_hand();
  if (key == MPI_KEYVAL_INVALID) return;
  Attribute* attribute = attribute_of(type, key);
  if (attribute == nullptr) {
    auto made = std::make_unique<Attribute>(Attribute{std::make_shared<Kept>()});
    if (PMPI_Type_set_attr(type, key, made.get()) != MPI_SUCCESS) return;
    attribute = made.release();
  }
  attribute->handle = number_of(type);
  Committed& types = committed();
  const std::unique_lock lock(types.mutex);
  types.all.insert_or_assign(attribute->handle, attribute->kept);
  generation.fetch_add(1, std::memory_order_release);
}

namespace {

/// Returns what is kept for a type; null for those that were not committed.
std::shared_ptr<Kept> kept_of(std::uint64_t handle) {
  Committed& types = committed();
  const std::shared_lock lock(types.mutex);
  const auto found = types.all.find(handle);
  return found != types.all.end() ? found->second : nullptr;
}

}  // namespace

bool is_kept(MPI_Datatype type) { return kept_of(number_of(type)) != nullptr; }

std::shared_ptr<const Items> items_of(MPI_Datatype type, std::int64_t count) {
  constexpr std::size_t places = 16;
  thread_local std::array<Remembered, places> remembered;
  const std::uint64_t handle = number_of(type);
  // Handles are pointers, or numbers whose low bits count.
  Remembered& place = remembered[(handle ^ (handle >> 6) ^ (handle >> 12)) % places];
  const std::uint64_t now = generation.load(std::memory_order_acquire);
  if (place.handle != handle || place.generation != now) {
    std::shared_ptr<TypePlan> plan;
    if (const auto kept = kept_of(handle)) {
      std::call_once(kept->once, [&] { kept->plan = make_plan(type); });
      plan = kept->plan;
    }
    place = {handle, now, std::move(plan), nullptr};
  }
  if (!place.plan) return nullptr;
  if (place.items && place.items->count == count) return place.items;
  try {
    place.items = place.plan->items(count);
    return place.items;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void forget_plans() {
  int key = keyval.exchange(MPI_KEYVAL_INVALID);
  if (key != MPI_KEYVAL_INVALID) (void)PMPI_Type_free_keyval(&key);
  generation.fetch_add(1, std::memory_order_release);
}

}  // namespace tranship::mpi
