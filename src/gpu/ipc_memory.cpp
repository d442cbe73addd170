#include "gpu/ipc_memory.hpp"

namespace tranship {

IpcMemory::~IpcMemory() {
  for (const auto& [gpu, address] : addresses_) gpus_->close_ipc_handle(address);
}

Result<std::shared_ptr<IpcMemory>> IpcMemory::open(const std::shared_ptr<Gpus>& gpus,
                                                   const IpcHandle& handle, int gpu) {
  auto memory = std::make_shared<IpcMemory>(gpus, handle, gpu);
  if (const auto address = memory->address_for(gpu); !address) return address.error();
  return memory;
}

Result<std::byte*> IpcMemory::address_for(int gpu) {
  if (own_ != nullptr) return own_;
  std::lock_guard lock(mutex_);
  if (const auto known = addresses_.find(gpu); known != addresses_.end()) return known->second;
  auto opened = gpus_->open_ipc_handle(handle_, gpu);
  if (opened) addresses_.emplace(gpu, *opened);
  return opened;
}

}  // namespace tranship
