#include "os/cores.hpp"

#include <thread>

namespace tranship {

bool cores_to_spare() {
  constexpr unsigned cores_min = 8;
  static const bool spare = std::thread::hardware_concurrency() >= cores_min;
  return spare;
}

}  // namespace tranship
