#include "engine/whole_array.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace tranship {
namespace {

Array whole_array(std::shared_ptr<const Mapping> mapping, const Place& place, std::string name) {
  Array array;
  array.view = View::whole(std::move(mapping));
  array.place = place;
  array.named = true;
  array.name = std::move(name);
  return array;
}

}  // namespace

Result<Array> array_in_memory(std::shared_ptr<const Mapping> mapping, std::byte* address,
                              std::int64_t bytes) {
  if (bytes < mapping->end_bytes()) {
    return Error{ErrorCode::invalid_argument,
                 "the memory has " + std::to_string(bytes) + " bytes, and the layout \"" +
                     mapping->layout().to_string() + "\" needs " +
                     std::to_string(mapping->end_bytes()),
                 "give more memory or smaller extents"};
  }
  return whole_array(std::move(mapping), {address, nullptr}, "an instance in host memory");
}

Result<Array> array_in_file(std::shared_ptr<const Mapping> mapping, const std::string& path,
                            std::int64_t offset, FileOptions options) {
  const std::int64_t bytes = std::max(options.bytes_min, mapping->end_bytes());
  if (offset < 0 || __builtin_add_overflow(offset, bytes, &options.bytes_min)) {
    return Error{ErrorCode::invalid_argument, "the offset is " + std::to_string(offset) + " bytes",
                 "give a number of bytes from 0 on"};
  }
  Array array =
      whole_array(std::move(mapping), {reinterpret_cast<std::byte*>(offset), nullptr}, path);
  options.payload_bytes = array.view.bytes();
  auto file = File::open(path, options);
  if (!file) return file.error();
  array.place.attachment = file->get();
  array.memory_kind = MemoryKind::file;
  array.writable = options.mode != FileMode::read;
  array.owner = std::move(*file);
  return array;
}

}  // namespace tranship
