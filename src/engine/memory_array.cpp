#include "engine/memory_array.hpp"

#include <string>
#include <utility>

namespace tranship {

Result<Array> array_in_memory(std::shared_ptr<const Mapping> mapping, std::byte* address,
                              std::int64_t bytes) {
  if (bytes < mapping->end_bytes()) {
    return Error{ErrorCode::invalid_argument,
                 "the memory has " + std::to_string(bytes) + " bytes, and the layout \"" +
                     mapping->layout().to_string() + "\" needs " +
                     std::to_string(mapping->end_bytes()),
                 "give more memory or smaller extents"};
  }
  Array array;
  array.view = View::whole(std::move(mapping));
  array.place.address = address;
  array.named = true;
  array.name = "an instance in host memory";
  return array;
}

}  // namespace tranship
