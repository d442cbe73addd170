#include "os/event_set.hpp"

#include <algorithm>

namespace tranship {

bool EventSet::open() {
  epoll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  return static_cast<bool>(epoll_);
}

bool EventSet::control(int operation, int descriptor, std::uint64_t tag, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  return epoll_ctl(epoll_.get(), operation, descriptor, &event) == 0;
}

bool EventSet::add(int descriptor, std::uint64_t tag, std::uint32_t events) {
  return control(EPOLL_CTL_ADD, descriptor, tag, events);
}

bool EventSet::change(int descriptor, std::uint64_t tag, std::uint32_t events) {
  return control(EPOLL_CTL_MOD, descriptor, tag, events);
}

void EventSet::remove(int descriptor) { (void)control(EPOLL_CTL_DEL, descriptor, 0, 0); }

std::span<const epoll_event> EventSet::wait(std::span<epoll_event> room, int limit_ms) const {
  const int count = epoll_wait(epoll_.get(), room.data(), static_cast<int>(room.size()), limit_ms);
  return room.first(static_cast<std::size_t>(std::max(count, 0)));
}

}  // namespace tranship
