// Instances and files, as C sees them.
#include <algorithm>
#include <string>
#include <string_view>

#include "c/arrays.hpp"
#include "c/handles.hpp"
#include "engine/whole_array.hpp"

using namespace tranship;
using namespace tranship::c_api;

namespace {

/// Returns the number in "device", "device0", "device1"; -1 for any other text.
int device_number(std::string_view memory) {
  constexpr std::string_view word = "device";
  if (memory.substr(0, word.size()) != word) return -1;
  memory.remove_prefix(word.size());
  if (memory.size() > 3) return -1;
  int number = 0;
  for (const char digit : memory) {
    if (digit < '0' || digit > '9') return -1;
    number = 10 * number + (digit - '0');
  }
  return number;
}

Result<Array> allocated(Engine& engine, std::shared_ptr<const Mapping> mapping,
                        const std::string& memory) {
  const std::int64_t bytes = std::max<std::int64_t>(mapping->end_bytes(), 1);
  if (memory == "shared") {
    auto held = engine.allocate_shared(bytes);
    if (!held) return held.error();
    auto array = array_in_memory(std::move(mapping), (*held)->data(), bytes);
    if (!array) return array;
    array->name = "an instance in shared memory";
    array->owner = *held;
    array->backing = Backing::shared;
    return array;
  }
  const int device = device_number(memory);
  if (device < 0 && memory != "pinned") {
    return Error{ErrorCode::invalid_argument, "the memory is \"" + memory + "\"",
                 "use \"shared\", \"pinned\", or \"device0\", \"device1\" and so on"};
  }
  auto held = engine.allocate(device < 0 ? MemoryKind::pinned : MemoryKind::device, device, bytes);
  if (!held) return held.error();
  auto array = array_in_memory(std::move(mapping), static_cast<std::byte*>(held->get()), bytes);
  if (!array) return array;
  array->name = "an instance in " + memory + " memory";
  if (device >= 0) {
    array->memory_kind = MemoryKind::device;
    array->device = device;
  }
  array->backing = Backing::shared;
  array->owner = *held;
  return array;
}

Result<Array> open_file(const char* path, std::shared_ptr<const Mapping> mapping,
                        const tranship_file_options& given) {
  const auto mode = file_mode_from(given.mode == nullptr ? "r" : given.mode);
  if (!mode) return mode.error();
  FileOptions options;
  options.mode = *mode;
  options.direct = given.cached == 0;
  options.durable = given.durable != 0;
  return array_in_file(std::move(mapping), path, given.offset, std::move(options));
}

/// @error invalid_argument for an instance that is no file; closed in a fork
Result<File*> file_of(tranship_instance* file) {
  if (Status given = check_given({{"file", file}}); !given) return given.error();
  if (Status here = check_here(*file); !here) return here.error();
  auto* opened = dynamic_cast<File*>(file->array.place.attachment);
  if (opened != nullptr) return opened;
  return Error{ErrorCode::invalid_argument, "the argument `file` is " + file->array.name,
               "pass an instance that tranship_file_open() made"};
}

}  // namespace

namespace tranship::c_api {

tranship_instance* instance_of(std::shared_ptr<Engine> engine, Array array) {
  auto made = std::make_unique<tranship_instance>();
  made->engine = std::move(engine);
  made->array = std::move(array);
  return made.release();
}

}  // namespace tranship::c_api

tranship_code tranship_layout_bytes(const tranship_layout* layout, int64_t* bytes) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"layout", layout}, {"bytes", bytes}}); !given) return given;
    const auto mapping = mapping_of(*layout);
    if (!mapping) return mapping.error();
    *bytes = (*mapping)->end_bytes();
    return {};
  });
}

tranship_code tranship_instance_of_array(tranship_engine* engine, const tranship_array* array,
                                         tranship_instance** instance) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"array", array}, {"instance", instance}});
    if (!used) return used.error();
    *instance = nullptr;
    auto made = array_of(*array, (*used)->gpus().get());
    if (!made) return made.error();
    *instance = instance_of(std::move(*used), std::move(*made));
    return {};
  });
}

tranship_code tranship_instance_of_memory(tranship_engine* engine, void* data, int64_t bytes,
                                          const tranship_layout* layout,
                                          tranship_instance** instance) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"data", data}, {"layout", layout}, {"instance", instance}});
    if (!used) return used.error();
    *instance = nullptr;
    auto mapping = mapping_of(*layout);
    if (!mapping) return mapping.error();
    auto array = array_in_memory(std::move(*mapping), static_cast<std::byte*>(data), bytes);
    if (!array) return array.error();
    locate(*array, (*used)->gpus().get());
    *instance = instance_of(std::move(*used), std::move(*array));
    return {};
  });
}

tranship_code tranship_instance_allocate(tranship_engine* engine, const tranship_layout* layout,
                                         const char* memory, tranship_instance** instance) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"layout", layout}, {"instance", instance}});
    if (!used) return used.error();
    *instance = nullptr;
    auto mapping = mapping_of(*layout);
    if (!mapping) return mapping.error();
    auto array = allocated(**used, std::move(*mapping), memory == nullptr ? "shared" : memory);
    if (!array) return array.error();
    *instance = instance_of(std::move(*used), std::move(*array));
    return {};
  });
}

tranship_code tranship_instance_part(const tranship_instance* whole, const tranship_range* ranges,
                                     int64_t range_count, tranship_instance** part) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"whole", whole}, {"part", part}}); !given) return given;
    if (Status here = check_here(*whole); !here) return here;
    *part = nullptr;
    const auto region = region_of(ranges, range_count);
    if (!region) return region.error();
    Array array = whole->array;
    if (Status s = restrict_to(array, *region, array.view); !s) return s;
    *part = instance_of(whole->engine, std::move(array));
    return {};
  });
}

tranship_code tranship_instance_read_only(const tranship_instance* whole,
                                          tranship_instance** read_only) {
  return guarded([&]() -> Status {
    Status status = check_given({{"whole", whole}, {"read_only", read_only}});
    if (status) status = check_here(*whole);
    if (!status) return status;
    *read_only = nullptr;
    Array array = whole->array;
    array.writable = false;
    *read_only = instance_of(whole->engine, std::move(array));
    return {};
  });
}

void* tranship_instance_data(const tranship_instance* instance) {
  if (instance == nullptr || instance->array.place.attachment != nullptr) return nullptr;
  return instance->array.place.address;
}

int64_t tranship_instance_bytes(const tranship_instance* instance) {
  return instance != nullptr ? instance->array.view.bytes() : 0;
}

void tranship_instance_free(tranship_instance* instance) { free_handle(instance); }

tranship_code tranship_file_open(tranship_engine* engine, const char* path,
                                 const tranship_layout* layout,
                                 const tranship_file_options* options, tranship_instance** file) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"path", path}, {"layout", layout}, {"file", file}});
    if (!used) return used.error();
    *file = nullptr;
    const auto read = read_options(options);
    if (!read) return read.error();
    auto mapping = mapping_of(*layout);
    if (!mapping) return mapping.error();
    auto array = open_file(path, std::move(*mapping), *read);
    if (!array) return array.error();
    *file = instance_of(std::move(*used), std::move(*array));
    return {};
  });
}

tranship_code tranship_file_flush(tranship_instance* file) {
  return guarded([&]() -> Status {
    const auto opened = file_of(file);
    return opened ? (*opened)->flush() : Status(opened.error());
  });
}

tranship_code tranship_file_close(tranship_instance* file) {
  return guarded([&]() -> Status {
    const auto opened = file_of(file);
    return opened ? (*opened)->close() : Status(opened.error());
  });
}
