// Packers, as C sees them.
#include <cstddef>
#include <memory>
#include <utility>

#include "c/handles.hpp"
#include "tranship/packer.h"

using namespace tranship;
using namespace tranship::c_api;

tranship_code tranship_packer_new(const tranship_type* type, int64_t count,
                                  tranship_packer** packer) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"packer", packer}}); !given) return given;
    *packer = nullptr;
    if (Status given = check_given({{"type", type}}); !given) return given;
    auto made = TypePacker::make(type->type, count);
    if (!made) return made.error();
    *packer = std::make_unique<tranship_packer>(std::move(*made)).release();
    return {};
  });
}

void tranship_packer_free(tranship_packer* packer) {
  const std::unique_ptr<tranship_packer> freed(packer);
}

int64_t tranship_packer_bytes(const tranship_packer* packer) {
  return packer != nullptr ? packer->packer.bytes() : 0;
}

tranship_code tranship_packer_pack(const tranship_packer* packer, const void* items, void* packed) {
  return guarded([&]() -> Status {
    if (packer == nullptr || (packed == nullptr && packer->packer.bytes() > 0)) {
      return check_given({{"packer", packer}, {"packed", packed}});
    }
    return packer->packer.pack(static_cast<const std::byte*>(items),
                               static_cast<std::byte*>(packed));
  });
}

tranship_code tranship_packer_unpack(const tranship_packer* packer, const void* packed,
                                     void* items) {
  return guarded([&]() -> Status {
    if (packer == nullptr || (packed == nullptr && packer->packer.bytes() > 0)) {
      return check_given({{"packer", packer}, {"packed", packed}});
    }
    return packer->packer.unpack(static_cast<const std::byte*>(packed),
                                 static_cast<std::byte*>(items));
  });
}
