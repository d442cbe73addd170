#include "mpi/gpu_memory.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "mpi/handles.hpp"
#include "mpi/settings.hpp"
#include "tranship/engine.hpp"

namespace tranship::mpi {
namespace {

/// Returns how many libraries this process has loaded so far.
unsigned long long libraries_loaded() {
  unsigned long long loaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* counted) {
        *static_cast<unsigned long long*>(counted) = info->dlpi_adds;
        return 1;
      },
      &loaded);
  return loaded;
}

/// Returns whether the program may use a GPU: it has loaded CUDA's driver, or its GPUs are
/// emulated.
bool may_use_gpus() {
  if (settings().emulates_gpus) return true;
  static std::atomic<bool> found{false};
  static std::atomic<unsigned long long> looked_at{0};
  if (found.load(std::memory_order_relaxed)) return true;
  const unsigned long long loaded = libraries_loaded();
  if (looked_at.exchange(loaded, std::memory_order_relaxed) == loaded) return false;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  dlclose(driver);
  found.store(true, std::memory_order_relaxed);
  return true;
}

/// Returns the engine, which the first call opens; null if that failed.
Engine* engine_at_hand() {
  static std::once_flag once;
  static Engine* engine = nullptr;
  std::call_once(once, [] {
    try {
      engine = new Engine;  // never deleted: messages may end while the process exits
    } catch (const std::exception& error) {
      (void)std::fprintf(stderr, "tranship-mpi: memory of GPUs is left to MPI: %s\n", error.what());
    }
  });
  return engine;
}

/// A copy between items and a buffer.
struct Ends {
  const Items* items;
  const std::byte* places;
  const std::byte* packed;
  int gpu;
  bool unpacks;

  auto operator<=>(const Ends&) const = default;
};

/// Prepared copies, of which the one that was unused for longest is dropped when there are too
/// many.
class Prepared {
 public:
  /// Starts a copy and waits for its end; from the second call on it is prepared.
  void carry_out(const Ends& ends, const std::shared_ptr<const Items>& items) {
    start_again(ends, items).wait();
  }

  /// Starts a copy that is not remembered, and waits for its end.
  static void carry_out_once(const Ends& ends) { start(ends).wait(); }

  void clear() {
    const std::lock_guard lock(mutex_);
    known_.clear();
  }

 private:
  struct Known {
    std::shared_ptr<const Items> items;  ///< Kept, since the key has their address.
    std::shared_ptr<PreparedCopy> copy;  ///< Null until the second call.
    std::uint64_t used = 0;
  };

  /// The items as one block of bytes, and the type of their elements in it.
  struct Typed {
    Array block;
    Datatype type;
  };

  static Typed typed(const Ends& ends) {
    const Datatype& all = ends.items->group;
    const std::int64_t begin = all.true_lower_bound();
    return {bytes_at(ends.places + begin, all.true_upper_bound() - begin),
            begin == 0 ? all : types::hindexed_block(1, {-begin}, all)};
  }

  static Array packed(const Ends& ends) {
    return bytes_at(ends.packed, ends.items->packer.bytes());
  }

  static Array bytes_at(const std::byte* begin, std::int64_t bytes) {
    // The array may be the target of a copy.
    return {reinterpret_cast<unsigned char*>(const_cast<std::byte*>(begin)), {bytes}};
  }

  static Event start(const Ends& ends) {
    const Typed there = typed(ends);
    const Engine& engine = *engine_at_hand();
    return ends.unpacks ? engine.copy(packed(ends), there.block, {}, there.type)
                        : engine.copy(there.block, packed(ends), there.type, {});
  }

  static std::shared_ptr<PreparedCopy> prepare(const Ends& ends) {
    const Typed there = typed(ends);
    const Engine& engine = *engine_at_hand();
    return std::make_shared<PreparedCopy>(
        ends.unpacks ? engine.prepare(packed(ends), there.block, {}, there.type)
                     : engine.prepare(there.block, packed(ends), there.type, {}));
  }

  Event start_again(const Ends& ends, const std::shared_ptr<const Items>& items) {
    std::shared_ptr<PreparedCopy> copy;
    {
      const std::lock_guard lock(mutex_);
      Known& known = known_[ends];
      if (known.items && !known.copy) known.copy = prepare(ends);
      copy = known.copy;
      known.items = items;
      known.used = ++uses_;
      drop_oldest();
    }
    return copy ? copy->start() : start(ends);
  }

  void drop_oldest() {
    constexpr std::size_t known_max = 64;
    if (known_.size() <= known_max) return;
    auto oldest = known_.begin();
    for (auto one = known_.begin(); one != known_.end(); ++one) {
      if (one->second.used < oldest->second.used) oldest = one;
    }
    known_.erase(oldest);
  }

  std::mutex mutex_;
  std::map<Ends, Known> known_;
  std::uint64_t uses_ = 0;
};

Prepared& prepared() {
  static Prepared* const all = new Prepared;
  return *all;
}

void carry_out(const OnGpu& on, const Ends& ends) {
  if (on.repeated) {
    prepared().carry_out(ends, on.items);
  } else {
    Prepared::carry_out_once(ends);
  }
}

/// Pinned memory that was allocated, by its address.
struct Pinned {
  std::mutex mutex;
  std::map<const std::byte*, Instance> all;
};

Pinned& pinned() {
  static Pinned* const all = new Pinned;
  return *all;
}

}  // namespace

int gpu_of(const void* address) {
  if (address == nullptr || !may_use_gpus()) return -1;
  Engine* engine = engine_at_hand();
  return engine != nullptr ? tranship_engine_gpu_of(engine->handle(), address) : -1;
}

std::optional<int> gpu_of(const void* first, const void* last) {
  if (!may_use_gpus()) return -1;
  const int gpu = gpu_of(first);
  return gpu == gpu_of(last) ? std::optional(gpu) : std::nullopt;
}

std::byte* allocate_pinned(std::int64_t bytes) {
  Engine* engine = engine_at_hand();
  if (engine == nullptr) return nullptr;
  try {
    Instance made = engine->allocate(Layout({{"byte", bytes}}, {{"f0", "u1"}}), "pinned");
    auto* memory = static_cast<std::byte*>(made.data());
    Pinned& kept = pinned();
    const std::lock_guard lock(kept.mutex);
    kept.all.emplace(memory, std::move(made));
    return memory;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void free_pinned(std::byte* memory) {
  prepared().clear();  // another buffer may get the address
  Pinned& kept = pinned();
  const std::lock_guard lock(kept.mutex);
  kept.all.erase(memory);
}

void pack_on_gpu(const OnGpu& on, std::byte* packed) {
  carry_out(on, {on.items.get(), on.places, packed, on.gpu, false});
}

void unpack_on_gpu(const OnGpu& on, const std::byte* packed) {
  carry_out(on, {on.items.get(), on.places, packed, on.gpu, true});
}

}  // namespace tranship::mpi

/// Returns the engine that packs the memory of GPUs, for programs that know of it; null without
/// one. It belongs to the library.
TRANSHIP_MPI_API tranship_engine* tranship_mpi_engine() {
  tranship::Engine* engine = tranship::mpi::engine_at_hand();
  return engine != nullptr ? engine->handle() : nullptr;
}
