// Memory of the caller's, or a file, as an array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "channels/file/file.hpp"
#include "engine/array.hpp"

namespace tranship {

/// Returns an array of named dimensions in memory of this process's host, without an owner. bytes:
/// Size of the memory from `address` on.
/// @error invalid_argument if the mapping reaches beyond it
Result<Array> array_in_memory(std::shared_ptr<const Mapping> mapping, std::byte* address,
                              std::int64_t bytes);

/// Opens a file as an array of named dimensions that begins at byte `offset`, and owns the file.
/// options.bytes_min: Bytes that the file has from `offset` on at least; the mapping may need more.
/// @error as File::open(); invalid_argument if the offset is not usable
Result<Array> array_in_file(std::shared_ptr<const Mapping> mapping, const std::string& path,
                            std::int64_t offset, FileOptions options);

}  // namespace tranship
