// Copies between tensors of one GPU without descriptions of arrays, which cost more than a launch:
// copies that come again are found by what the tensors' library says of them, and long lists of
// dense tensors go by their addresses. All functions are called with the interpreter's lock held.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/lent_vector.hpp"
#include "copies.hpp"

namespace tranship::python {

/// Reads tensors through DLPack's C exchange table, and makes the description by which an engine
/// remembers the copy (Engine::copy_described()).
class TensorCopy {
 public:
  /// stream: What the caller gave, or None.
  TensorCopy(const std::shared_ptr<Engine>& engine, int priority, nb::handle stream);

  /// Adds a pair. Returns false if it is not one of tensors of one GPU, the same for all pairs, or
  /// needs the checks that array_of() makes: then the copy has no description.
  bool add(nb::handle source, nb::handle target);
  /// Adds the pairs of a list or tuple; `held` keeps them. Returns false as add() does.
  bool add_all(nb::handle pairs, nb::object& held);

  /// Returns the description for arrays that were read from the same tensors after it was made.
  /// Empty if the copy has none, or another thread has changed a tensor meanwhile.
  std::span<const std::int64_t> description_of(std::span<const CopyPair> pairs) const;
  /// Starts the copy if the engine remembers it. held: Keeps the tensors.
  std::optional<BoundEvent> start(std::shared_ptr<void> held) const;
  /// Starts many pairs of which each copies one block to another, which need no description.
  /// Nothing if the copy is no such list. held: Keeps the tensors.
  std::optional<BoundEvent> start_blocks(std::shared_ptr<void> held) const;

 private:
  struct Tensor {
    std::int64_t address = 0;
    std::int64_t type = 0;
    std::int64_t block_bytes = 0;  ///< 0: its elements do not fill a block in their order
    std::size_t shape_at = 0;      ///< in `numbers_`
    std::size_t rank = 0;
  };

  bool add(nb::handle object, bool writable, Tensor& read);
  std::span<const std::int64_t> description() const;
  CopyOptions options() const;
  bool exists(const CallerStream& stream) const;
  bool lies_on(int device);
  bool follows_library(const ExchangeTable& table);

  const std::shared_ptr<Engine>& engine_;
  int priority_;
  Follows follows_ = Follows::current;
  std::optional<CallerStream> stream_;    ///< the caller's, or the current one of all tensors
  const ExchangeTable* asked_ = nullptr;  ///< of the library whose current stream that is
  bool described_ = false;
  int device_ = -1;
  bool blocks_ = false;  ///< there are many pairs, and all copy blocks, which the lists have
  std::vector<std::int64_t> sources_;
  std::vector<std::int64_t> targets_;
  std::vector<std::int64_t> lengths_;
  LentVector<std::int64_t> numbers_;  ///< not the thread's own: tensors may run code that copies
};

}  // namespace tranship::python
