#include "fabric/links/exports.hpp"

namespace tranship::fabric {
namespace {

Status check(const ExportedArray& array) {
  const auto refuse = [&](const std::string& why) {
    return Error{ErrorCode::invalid_argument, "export '" + array.name + "': " + why};
  };
  if (array.name.empty()) return refuse("give it a name");
  if (array.name.size() > name_bytes_max) return refuse("the name is too long");
  if (array.description.size() > description_bytes_max)
    return refuse("the description is too long");
  if (array.bytes < 0) return refuse("its size is negative");
  if (array.place.attachment == nullptr && array.place.address == nullptr && array.bytes > 0) {
    return refuse("it has no address");
  }
  if (array.memory && !array.memory->contains(array.place.address, array.bytes)) {
    return refuse("it does not lie in the shared memory that was named with it");
  }
  return {};
}

}  // namespace

Status ExportTable::add(ExportedArray array) {
  if (auto status = check(array); !status) return status;
  std::lock_guard lock(mutex_);
  if (withdrawing_.contains(array.name)) {
    return Error{ErrorCode::invalid_argument, "'" + array.name + "' is still being withdrawn",
                 "withdraw it again first"};
  }
  std::size_t free_index = slots_.size();
  for (std::size_t k = 0; k < slots_.size(); ++k) {
    if (!slots_[k]) {
      free_index = k < free_index ? k : free_index;
    } else if (slots_[k]->array().name == array.name) {
      return Error{ErrorCode::invalid_argument, "'" + array.name + "' is already exported",
                   "withdraw it first"};
    }
  }
  if (free_index == slots_.size()) {
    if (slots_.size() == static_cast<std::size_t>(exports_max)) {
      return Error{ErrorCode::out_of_memory,
                   "'" + array.name + "' cannot be exported: " + std::to_string(exports_max) +
                       " arrays are, and no more fit",
                   "withdraw some"};
    }
    slots_.emplace_back();
  }
  const std::uint64_t id = (++generation_ << 16) | free_index;
  slots_[free_index] = std::make_shared<Export>(std::move(array), id, static_cast<int>(free_index));
  return {};
}

std::shared_ptr<const Export> ExportTable::find(const std::string& name) const {
  std::lock_guard lock(mutex_);
  for (const auto& one : slots_) {
    if (one && one->array().name == name) return one;
  }
  return nullptr;
}

std::vector<std::string> ExportTable::names() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& one : slots_) {
    if (one) names.push_back(one->array().name);
  }
  return names;
}

std::shared_ptr<Export> ExportTable::use(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  const std::size_t index = id & 0xffff;
  if (index >= slots_.size() || !slots_[index] || slots_[index]->id() != id) return nullptr;
  ++slots_[index]->users_;
  return slots_[index];
}

void ExportTable::release(Export& one) {
  std::lock_guard lock(mutex_);
  if (--one.users_ == 0) unused_.notify_all();
}

std::shared_ptr<Export> ExportTable::take(const std::string& name) {
  for (auto& one : slots_) {
    if (one && one->array().name == name) return std::move(one);
  }
  return nullptr;
}

std::shared_ptr<Export> ExportTable::remove(const std::string& name) {
  std::lock_guard lock(mutex_);
  return take(name);
}

std::shared_ptr<Export> ExportTable::begin_withdrawal(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (const auto found = withdrawing_.find(name); found != withdrawing_.end()) {
    return found->second;
  }
  auto taken = take(name);
  if (taken) withdrawing_[name] = taken;
  return taken;
}

void ExportTable::end_withdrawal(const Export& one) {
  std::lock_guard lock(mutex_);
  withdrawing_.erase(one.array().name);
}

bool ExportTable::wait_unused(const Export& one, std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  return unused_.wait_for(lock, at_most, [&] { return one.users_ == 0; });
}

}  // namespace tranship::fabric
