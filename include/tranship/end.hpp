// One end of a copy.
#pragma once

#include "array.hpp"

namespace tranship {

namespace detail {
class EngineHandle;
}

/// One end of a copy: an instance, or an array of the caller's. Made in the call alone.
class End {
 public:
  End(const Instance& instance) noexcept : instance_(&instance) {}
  End(const Array& array) noexcept : array_(&array) {}

 private:
  friend class detail::EngineHandle;
  const Instance* instance_ = nullptr;
  const Array* array_ = nullptr;
};

}  // namespace tranship
