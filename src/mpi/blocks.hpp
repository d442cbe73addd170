// The blocks of one side of a collective call, of which each has a type of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "mpi/buffers.hpp"
#include "mpi/handles.hpp"
#include "mpi/message.hpp"

namespace tranship::mpi {

/// Blocks that are packed into one buffer, one behind the other. If one block of a side is packed
/// here, all are: they are counted from one address.
class Blocks {
 public:
  /// Returns the blocks of one side of a call; nothing if they are left to MPI. places: bytes from
  /// the items to each block. absent: Blocks of neighbours that are not there, if there are some.
  template <typename Count, typename Displacement>
  static std::optional<Blocks> of(int blocks, const std::vector<bool>& absent, const void* items,
                                  const Count* counts, const Displacement* places,
                                  const MPI_Datatype* types, bool received) {
    // Most calls have basic types only: they are left to MPI without a further question.
    if (std::none_of(types, types + blocks, is_kept)) return {};
    return make(blocks, received, most_of<Count>(), most_of<Displacement>(), [&](std::size_t k) {
      return Block{static_cast<const std::byte*>(items) + places[k],
                   static_cast<std::int64_t>(counts[k]), types[k], !absent.empty() && absent[k]};
    });
  }

  /// Does as above for blocks of one type. counts: null: all have `count` items. places: extents of
  /// the type from the items to each block; null: one block begins where the one before ends
  template <typename Count, typename Displacement>
  static std::optional<Blocks> of(int blocks, const std::vector<bool>& absent, const void* items,
                                  MPI_Datatype type, Count count, const Count* counts,
                                  const Displacement* places, bool received) {
    MPI_Count lower_bound = 0;
    MPI_Count extent = 0;
    if (!is_kept(type) || PMPI_Type_get_extent_x(type, &lower_bound, &extent) != MPI_SUCCESS) {
      return {};
    }
    return make(blocks, received, most_of<Count>(), most_of<Displacement>(), [&](std::size_t k) {
      const auto items_here = static_cast<std::int64_t>(counts != nullptr ? counts[k] : count);
      const auto place = places != nullptr ? static_cast<std::int64_t>(places[k])
                                           : static_cast<std::int64_t>(k) * count;
      return Block{static_cast<const std::byte*>(items) + place * extent, items_here, type,
                   !absent.empty() && absent[k]};
    });
  }

  /// Packs all blocks. Returns false if that is not possible.
  bool pack();
  /// Unpacks all blocks, which have arrived.
  void unpack();

  std::byte* data() const { return buffer_.data(); }
  const std::vector<std::int64_t>& bytes() const { return bytes_; }
  const std::vector<std::int64_t>& places() const { return places_; }

 private:
  struct Block {
    const std::byte* items;
    std::int64_t count;
    MPI_Datatype type;
    bool absent;  ///< The neighbour does not exist: the block is neither packed nor unpacked.
  };
  /// A block whose items lie one behind the other.
  struct Dense {
    std::byte* items = nullptr;
    std::size_t number = 0;
  };
  struct Strided {
    Message message;
    std::size_t number = 0;
  };

  template <typename BlockOf>
  static std::optional<Blocks> make(int blocks, bool received, std::int64_t count_max,
                                    std::int64_t place_max, const BlockOf& block_of) {
    Blocks made;
    for (int k = 0; k < blocks; ++k) {
      if (!made.add(block_of(static_cast<std::size_t>(k)), received, count_max)) return {};
    }
    if (!made.gains_ || made.total_ > place_max) return {};
    made.buffer_ = Buffer::of(made.total_, made.on_gpu_);
    if (made.buffer_.data() == nullptr) return {};
    return made;
  }
  bool add(const Block& block, bool received, std::int64_t count_max);
  std::byte* at(std::size_t number) const { return data() + places_[number]; }
  std::size_t size_of(const Dense& block) const {
    return static_cast<std::size_t>(bytes_[block.number]);
  }

  std::vector<std::int64_t> bytes_;
  std::vector<std::int64_t> places_;
  std::int64_t total_ = 0;
  bool gains_ = false;   ///< whether a block has a type that is packed here
  bool on_gpu_ = false;  ///< whether a block lies in the memory of a GPU
  std::vector<Dense> dense_;
  std::vector<Strided> strided_;  ///< All other blocks, dense ones on a GPU included.
  Buffer buffer_;
};

}  // namespace tranship::mpi
