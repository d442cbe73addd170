#include "fabric/links/remote_array.hpp"

#include <utility>

namespace tranship::fabric {

std::shared_ptr<void> Link::begin_lookup() {
  std::lock_guard lock(mutex_);
  ++lookups_;
  return {static_cast<void*>(this), [link = shared_from_this()](void*) {
            std::lock_guard guard(link->mutex_);
            if (--link->lookups_ == 0) link->withdrawn_.clear();
          }};
}

/// Returns the peer's memory, mapped once for all of its arrays; null if it cannot be mapped.
std::shared_ptr<SharedMemory> Link::map_once(FileDescriptor descriptor, std::int64_t bytes) {
  auto memory = SharedMemory::map(std::move(descriptor), bytes);
  if (!memory) return nullptr;
  (*memory)->close_descriptor();
  for (const auto& weak : memories_) {
    const auto known = weak.lock();
    if (known && known->inode() == (*memory)->inode()) return known;
  }
  memories_.push_back(*memory);
  return *memory;
}

std::shared_ptr<RemoteArray> Link::add_array(const std::string& name, LookupReply reply,
                                             FileDescriptor memory) {
  RemoteArray::Fields fields;
  fields.name = name;
  fields.description = std::move(reply.description);
  fields.writable = reply.writable != 0;
  fields.remote = {reply.id, reply.index, reply.address, reply.bytes, reply.plain != 0};
  fields.ipc_handle = std::move(reply.ipc_handle);
  fields.memory_name = std::move(reply.memory_name);
  fields.takes_notices = reply.takes_notices != 0;
  fields.link = shared_from_this();
  if (carrier && !reply.carrier_key.empty()) {
    // An array that the carrier cannot open goes through slots.
    auto opened = carrier->open(reply.carrier_key, reply.carrier_address);
    if (opened) fields.carried = std::move(*opened);
  }
  std::lock_guard lock(mutex_);
  std::erase_if(memories_, [](const auto& one) { return one.expired(); });
  std::erase_if(arrays_, [](const auto& one) { return one.expired(); });
  if (memory && mode == LinkMode::shared) {
    fields.memory = map_once(std::move(memory), reply.memory_bytes);
    const bool inside = fields.memory && reply.memory_offset >= 0 &&
                        reply.bytes <= fields.memory->bytes() &&
                        reply.memory_offset <= fields.memory->bytes() - reply.bytes;
    if (inside) fields.mapped = fields.memory->data() + reply.memory_offset;
  }
  auto array = std::make_shared<RemoteArray>(std::move(fields));
  if (withdrawn_.contains(array->remote().id)) array->set_withdrawn();
  if (over_) array->end_use();
  arrays_.push_back(array);
  return array;
}

void Link::withdraw(std::uint64_t export_id) {
  std::vector<std::shared_ptr<RemoteArray>> concerned;
  {
    std::lock_guard lock(mutex_);
    for (const auto& weak : arrays_) {
      auto array = weak.lock();
      if (array && array->remote().id == export_id) concerned.push_back(std::move(array));
    }
    // A well-behaved peer does not withdraw more exports while a lookup lasts.
    const bool room = withdrawn_.size() < static_cast<std::size_t>(exports_max);
    if (lookups_ > 0 && room) withdrawn_.insert(export_id);
  }
  for (const auto& array : concerned) array->set_withdrawn();
}

void Link::fail(const Error& error) {
  requester->fail(error);
  std::vector<std::shared_ptr<RemoteArray>> arrays;
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    for (const auto& weak : arrays_) {
      if (auto array = weak.lock()) arrays.push_back(std::move(array));
    }
  }
  for (const auto& array : arrays) array->end_use();
}

RemoteArray::RemoteArray(Fields fields) : fields_(std::move(fields)) {
  const std::string& space = fields_.memory_name.space;
  if (space.empty()) return;
  const Origin process = space == own_space() ? Origin::this_process : Origin::other_process;
  origin_ = is_file_space(space) ? Origin::file : process;
}

void RemoteArray::set_withdrawn() {
  withdrawn_.store(true, std::memory_order_release);
  end_use();
}

void RemoteArray::end_use() {
  std::function<void()> then;
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    then = std::exchange(when_over_, nullptr);
  }
  if (then) then();
}

void RemoteArray::when_over(std::function<void()> then) {
  {
    std::lock_guard lock(mutex_);
    if (!over_) {
      when_over_ = std::move(then);
      return;
    }
  }
  then();
}

}  // namespace tranship::fabric
