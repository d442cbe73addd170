// Copies between tensors of one GPU that are found again by what the tensors' library says of them:
// loops that copy between the same tensors each time need no descriptions of arrays, which cost
// more than the launch. All functions are called with the interpreter's lock held.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

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

  /// Empty if the copy has none.
  std::span<const std::int64_t> description() const;
  /// Starts the copy if the engine remembers it. held: Keeps the tensors.
  std::optional<BoundEvent> start(std::shared_ptr<void> held) const;

 private:
  bool add(nb::handle tensor, bool writable);
  bool lies_on(int device);
  bool runs_in(std::uintptr_t stream);

  const std::shared_ptr<Engine>& engine_;
  int priority_;
  std::optional<CallerStream> stream_;  ///< the caller's, or the one that tensors name
  bool described_ = false;
  int device_ = -1;
  LentVector<std::int64_t> numbers_;  ///< not the thread's own: tensors may run code that copies
};

}  // namespace tranship::python
