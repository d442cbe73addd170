#include "mpi/type_plan.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "mpi/report.hpp"

namespace tranship::mpi {
namespace {

/// The plan of a type, and whether it has been made. Duplicates of the type share it.
struct Kept {
  std::once_flag once;
  std::shared_ptr<TypePlan> plan;  ///< null: left to MPI
};

/// The attribute's value.
struct Attribute {
  std::shared_ptr<Kept> kept;
  std::uint64_t handle = 0;  ///< the type's, once it is known
};

/// The committed types, by their handles. MPI is asked about no other handle, since a wrong one
/// would be an error of that question; the call that uses it reports it.
struct Committed {
  std::shared_mutex mutex;
  std::unordered_map<std::uint64_t, std::shared_ptr<Kept>> all;
};

Committed& committed() {
  static Committed* const types = new Committed;
  return *types;
}

/// Counts the types that were made or freed: a handle may then belong to another type.
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

/// The types that a thread has used lately, by their handles.
struct Remembered {
  std::uint64_t handle = 0;
  std::uint64_t generation = 0;
  std::shared_ptr<TypePlan> plan;
  std::shared_ptr<const Items> items;  ///< the latest
};

/// Set when a thread's variables are destroyed: destructors that run later may still call MPI.
thread_local bool memory_is_gone = false;

struct Memory {
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { memory_is_gone = true; }

  std::array<Remembered, 16> places;
};

}  // namespace

bool Items::disjoint() const {
  if (!group.disjoint()) return false;
  if (groups == 1) return true;
  const std::int64_t span = group.true_upper_bound() - group.true_lower_bound();
  return group_extent >= span || -group_extent >= span;
}

std::shared_ptr<const Items> make_items(const ReadType& one, std::int64_t count,
                                        const Packer* packer) {
  constexpr std::int64_t listed_runs_most = 4096;
  const bool apart =
      count > 1 && one.construction == Construction::lists && one.type.runs() > listed_runs_most;
  const bool single = apart || count == 1;
  Datatype group = single ? one.type : types::contiguous(count, one.type);
  Items made{count,
             one,
             apart ? count : 1,
             one.type.extent(),
             group,
             single && packer != nullptr ? *packer : Packer(group)};
  std::int64_t all_bytes = 0;
  const std::int64_t last = (made.groups - 1) * made.group_extent;  // of a call's memory: it fits
  if (__builtin_mul_overflow(made.groups, group.bytes(), &all_bytes)) {
    throw OutOfRange("the items have too many bytes");
  }
  made.lowest = group.true_lower_bound() + std::min<std::int64_t>(last, 0);
  made.highest = group.true_upper_bound() + std::max<std::int64_t>(last, 0);
  made.contiguous = !apart && group.runs() == 1 && group.true_lower_bound() == 0;
  const std::int64_t run_bytes = group.bytes() / std::max<std::int64_t>(group.runs(), 1);
  const TypeShape shape{one.construction, run_bytes, all_bytes, made.highest - made.lowest};
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
  auto kept = make_items(type_, count, &packer_);
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

namespace {

std::shared_ptr<TypePlan> plan_of(MPI_Datatype type) {
  const auto kept = kept_of(number_of(type));
  if (!kept) return nullptr;
  std::call_once(kept->once, [&] { kept->plan = make_plan(type); });
  return kept->plan;
}

std::shared_ptr<const Items> remembered_items(MPI_Datatype type, std::int64_t count) {
  thread_local Memory memory;
  const std::uint64_t handle = number_of(type);
  // Handles are pointers, or numbers whose low bits count.
  Remembered& place =
      memory.places[(handle ^ (handle >> 6) ^ (handle >> 12)) % memory.places.size()];
  const std::uint64_t now = generation.load(std::memory_order_acquire);
  if (place.handle != handle || place.generation != now) {
    place = {handle, now, plan_of(type), nullptr};
  }
  if (!place.plan) return nullptr;
  if (!place.items || place.items->count != count) place.items = place.plan->items(count);
  return place.items;
}

}  // namespace

std::shared_ptr<const Items> items_of(MPI_Datatype type, std::int64_t count) {
  try {
    if (!memory_is_gone) return remembered_items(type, count);
    const auto plan = plan_of(type);
    return plan ? plan->items(count) : nullptr;
  } catch (const std::exception&) {
    return nullptr;  // too many bytes, or no memory: left to MPI
  }
}

void forget_plans() {
  int key = keyval.exchange(MPI_KEYVAL_INVALID);
  if (key != MPI_KEYVAL_INVALID) (void)PMPI_Type_free_keyval(&key);
  Committed& types = committed();
  const std::unique_lock lock(types.mutex);
  types.all.clear();
  generation.fetch_add(1, std::memory_order_release);
}

}  // namespace tranship::mpi
