// What identifies a recipe: numbers that say all that it depends on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/lent_vector.hpp"
#include "engine/recipe/copy_request.hpp"

namespace tranship {

/// One end of a copy as a library describes it: an array of one type with strides. The lists are
/// the library's.
struct PlainArray {
  std::byte* address = nullptr;  ///< of the element at index 0
  MemoryKind memory_kind = MemoryKind::host;
  int device = -1;                        ///< of device memory: the GPU's number
  std::int64_t type = 0;                  ///< type_number_of() its elements
  int rank = 0;                           ///< at most dimensions_max
  const std::int64_t* shape = nullptr;    ///< no extent is 0
  const std::int64_t* strides = nullptr;  ///< in units of `stride_unit` bytes; null: dense
  std::int64_t stride_unit = 1;
  std::int64_t item_bytes = 1;
};

/// The same numbers mean the same copy, up to the addresses: shapes, strides, types, memories, how
/// addresses are aligned (for GPUs), options, and, of several pairs, how far their arrays lie from
/// those of the first. Of pairs whose overlap is checked but once, it says how far the two arrays
/// lie from each other, or, of an only pair, that they lie apart. Kept by one thread for one call.
class RecipeKey {
 public:
  /// Begins the key of `pairs` pairs.
  RecipeKey(const CopyOptions& options, std::size_t pairs);

  /// Sets whether the copy starts in a stream, if that is known later than the options.
  void set_in_streams(bool in_streams) {
    (*numbers_)[0] = ((*numbers_)[0] & ~std::int64_t{2}) | (in_streams ? 2 : 0);
  }

  /// Adds the ends of the only pair. Returns false if copies of such arrays are not remembered.
  bool add(const Array& source, const Array& target);

  /// Adds one end of a pair: its source, then its target, then end_pair().
  void add_end(const PlainArray& array);
  /// Does what add() does for two plain arrays. on_gpu: Whether one of them lies on a GPU.
  bool end_pair(const std::byte* source, const std::byte* target, bool on_gpu);
  /// Does the same for one of several pairs on GPUs: adds how far its arrays lie from each other.
  bool end_placed_pair(const std::byte* source, const std::byte* target);

  /// Returns the key of a request; empty if its recipe is not remembered. All its arrays' memories
  /// are known (is_resolved()).
  static std::optional<RecipeKey> of(const CopyRequest& request);

  /// A pack, or an unpack, between two blocks of host memory that share no byte.
  struct Pack {
    const Datatype& type;
    std::int64_t places_bytes = 0;  ///< size of the block in which the type's elements lie
    std::int64_t packed_bytes = 0;  ///< size of the block at whose begin they are packed
    bool unpacks = false;
  };
  /// Returns the key of the request that describes the same copy with arrays and types.
  static RecipeKey of(const Pack& pack);

  std::span<const std::int64_t> numbers() const { return *numbers_; }

  /// Longest key, in numbers, that is remembered: some thousands of pairs.
  static constexpr std::size_t numbers_most = std::size_t{32} << 10;

 private:
  bool add_end(const Array& array);
  /// Adds an end whose bytes are counted from the begin of the block that the array fills.
  bool add_block(const Array& array);
  void add_block(MemoryKind kind, int device, std::int64_t begin, std::int64_t bytes);
  bool add_ends(const Array& source, const Array& target, bool as_blocks);
  bool add_distance(std::optional<std::int64_t> distance);
  void add_type(const Datatype& type);
  void add_raw_bytes(std::int64_t offset, std::int64_t count);
  bool add_lists(std::initializer_list<std::span<const std::int64_t>> lists);

  LentVector<std::int64_t> numbers_;
  const std::byte* first_source_ = nullptr;  ///< the addresses of the first pair
  const std::byte* first_target_ = nullptr;
};

}  // namespace tranship
