// What a copy moves, in the one form of design I6: nests, nests at lists of places, or equal runs.
#pragma once

#include <concepts>
#include <span>
#include <variant>
#include <vector>

#include "data/indexed_nest.hpp"
#include "data/loop_nest.hpp"
#include "data/run_list.hpp"

namespace tranship {

/// Exactly one of three ways to say which bytes are moved: plain nests, indexed nests, or a list of
/// runs. A value that refers to what its maker owns.
class Payload {
 public:
  /// Nothing.
  Payload() = default;
  template <typename Nests>
    requires std::convertible_to<const Nests&, std::span<const LoopNest>>
  Payload(const Nests& nests) : form_(std::span<const LoopNest>(nests)) {}
  template <typename Nests>
    requires std::convertible_to<const Nests&, std::span<const IndexedNest>>
  Payload(const Nests& nests) : form_(std::span<const IndexedNest>(nests)) {}
  Payload(const RunList& runs) : form_(&runs) {}

  /// Returns the plain nests; empty if the payload has another form.
  std::span<const LoopNest> nests() const {
    const auto* nests = std::get_if<std::span<const LoopNest>>(&form_);
    return nests != nullptr ? *nests : std::span<const LoopNest>();
  }
  /// Returns the indexed nests; empty if the payload has another form.
  std::span<const IndexedNest> indexed() const {
    const auto* indexed = std::get_if<std::span<const IndexedNest>>(&form_);
    return indexed != nullptr ? *indexed : std::span<const IndexedNest>();
  }
  /// Returns the list of runs; null if the payload has another form.
  const RunList* runs() const {
    const auto* runs = std::get_if<const RunList*>(&form_);
    return runs != nullptr ? *runs : nullptr;
  }

 private:
  std::variant<std::span<const LoopNest>, std::span<const IndexedNest>, const RunList*> form_;
};

/// Returns the same payload in plain nests, which `nests` holds. Allocates only when `nests` grows.
Payload expanded(const Payload& payload, std::vector<LoopNest>& nests);

}  // namespace tranship
