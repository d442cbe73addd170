#include "staging/client/offered_arrays.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <vector>

#include "base/at.hpp"
#include "base/text.hpp"
#include "base/unless_interrupted.hpp"
#include "staging/protocol/connect.hpp"

namespace tranship::staging {
namespace {

/// Arrays that are remembered: as many as are read in turn. Each keeps its memory mapped.
constexpr std::size_t arrays_max = 8;
/// A thread that waits for another one's connection looks so often whether it is to end.
constexpr std::chrono::milliseconds connection_look{20};
/// A producer that does not stand still answers within this time, but on a busy machine.
constexpr std::chrono::milliseconds answer_usual{50};

std::string name_of(const LeasedBox& held, const StoredObject& object) {
  return version_of(held.variable, held.version) + ", " + object.box.text();
}

/// Returns an error about a producer, which names the object and the producer.
Error of_producer(const Error& why, const LeasedBox& held, const StoredObject& object,
                  const OfferedMemory& memory) {
  const bool lost = why.code == ErrorCode::not_found;  // it exports the array no longer
  return {lost ? ErrorCode::peer_lost : why.code,
          name_of(held, object) + ", lies in the memory of " + in_quotes(memory.producer) +
              ", which cannot be read: " + why.message,
          why.hint};
}

/// Checks that an array is what was offered: nothing that a producer says is believed.
Status check_offered(const Array& array, const LeasedBox& held, const StoredObject& object) {
  const Mapping& mapping = *array.view.mapping;
  bool same = mapping.fields().size() == 1 && mapping.rank() == object.box.rank;
  if (same) {
    const Field& field = mapping.fields()[0].field;
    same = field.type == held.type && field.bytes == held.element_bytes;
  }
  for (int k = 0; same && k < object.box.rank; ++k) {
    same = array.view.extents[at(k)] == object.box.extent(k);
  }
  if (same) return {};
  return Error{ErrorCode::io, name_of(held, object) + ", is not the array that was offered"};
}

}  // namespace

/// Notes at the end of its scope that this thread connects to a contact no more.
struct OfferedArrays::Connecting {
  OfferedArrays& all;
  const std::string& contact;
  ~Connecting() {
    {
      const std::lock_guard lock(all.mutex_);
      all.connecting_.erase(contact);
    }
    all.connected_.notify_all();
  }
};

/// Returns a producer that is connected; nothing if this thread has to connect to it, which is
/// noted in `connecting_` then. Waits while another thread does.
Result<std::optional<fabric::PeerId>> OfferedArrays::known_peer(const Processes& processes,
                                                                const std::string& contact,
                                                                const Patience& patience) {
  const auto end = std::chrono::steady_clock::now() + patience.timeout;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (connecting_.contains(contact)) (void)connected_.wait_for(lock, connection_look);
      if (!connecting_.contains(contact)) {
        const auto known = peers_.find(contact);
        if (known != peers_.end() && processes.connected(known->second)) {
          return std::optional(known->second);
        }
        connecting_.insert(contact);
        return std::optional<fabric::PeerId>();
      }
    }
    if (patience.interrupted && patience.interrupted()) return interruption();
    if (std::chrono::steady_clock::now() >= end) {
      return Error{ErrorCode::timeout, "another thread has not connected to it yet"};
    }
  }
}

Result<fabric::PeerId> OfferedArrays::peer(const std::shared_ptr<Processes>& processes,
                                           const std::string& contact, const Patience& patience) {
  const auto known = known_peer(*processes, contact, patience);
  if (!known) return known.error();
  if (*known) return **known;
  const Connecting connecting{*this, contact};
  const auto made = connect_when_there(processes, contact, patience);
  std::vector<fabric::PeerId> lost;
  {
    const std::lock_guard lock(mutex_);
    for (auto one = peers_.begin(); made && one != peers_.end();) {
      const bool here = one->first != contact && processes->connected(one->second);
      if (!here) lost.push_back(one->second);
      one = here ? std::next(one) : peers_.erase(one);
    }
    if (made) peers_.emplace(contact, *made);
  }
  for (const fabric::PeerId peer : lost) (void)processes->disconnect(peer);
  return made;
}

/// Returns whether an array can still be read: its producer is connected, and exports it.
bool OfferedArrays::is_usable(const Processes& processes, const Known& known) {
  const auto& liveness = known.array.liveness;
  return processes.connected(known.peer) && (liveness == nullptr || liveness->check().ok());
}

/// Returns an array that was found before, if it can still be read, and forgets it if not.
std::optional<OfferedArrays::Known> OfferedArrays::known_array(const Processes& processes,
                                                               const StoredObject& object) {
  std::optional<Known> dropped;  // it goes after the lock
  const std::lock_guard lock(mutex_);
  const auto known = arrays_.find({object.primary, object.object});
  if (known == arrays_.end()) return std::nullopt;
  if (is_usable(processes, known->second)) return known->second;
  dropped = std::move(known->second);
  arrays_.erase(known);
  return std::nullopt;
}

/// Looks an array up. A producer that stands still keeps nobody from being interrupted.
Result<Array> OfferedArrays::look_up(const std::shared_ptr<Processes>& processes,
                                     const Exported& exported, const Patience& patience) {
  const auto first = std::min(patience.timeout, answer_usual);
  auto array = processes->lookup(exported.peer, exported.name, first);
  if (array || array.error().code != ErrorCode::timeout || !patience.interrupted) return array;
  if (patience.timeout <= first) return array;
  const auto work = [processes, exported, left = patience.timeout - first] {
    return processes->lookup(exported.peer, exported.name, left);
  };
  auto late = unless_interrupted<Array>(work, patience.interrupted, [](const Array&) {});
  return late ? std::move(*late) : Result<Array>(interruption());
}

Result<Array> OfferedArrays::find(const std::shared_ptr<Processes>& processes,
                                  const Wanted& wanted) {
  const auto& [held, object, patience, end_ns] = wanted;
  if (auto known = known_array(*processes, object)) return std::move(known->array);
  const auto memory = catalog_.find_offer(object, end_ns);
  if (!memory) return memory.error();
  const auto there = peer(processes, memory->contact, patience);
  if (!there) return of_producer(there.error(), held, object, *memory);
  auto array = look_up(processes, {*there, memory->name}, patience);
  if (!array) return of_producer(array.error(), held, object, *memory);
  if (Status status = check_offered(*array, held, object); !status) return status.error();
  array->named = false;
  std::vector<Known> dropped;  // they go after the lock
  const std::lock_guard lock(mutex_);
  // Only now: memory that is offered again stays mapped.
  for (auto one = arrays_.begin(); one != arrays_.end();) {
    if (arrays_.size() >= arrays_max || !is_usable(*processes, one->second)) {
      dropped.push_back(std::move(one->second));
      one = arrays_.erase(one);
    } else {
      ++one;
    }
  }
  const std::pair key(object.primary, object.object);
  return arrays_.emplace(key, Known{std::move(*array), *there}).first->second.array;
}

Error OfferedArrays::why_failed(const Processes& processes, const LeasedBox& held,
                                const Error& error, std::int64_t end_ns) {
  if (error.code != ErrorCode::peer_lost && error.code != ErrorCode::not_found) return error;
  std::optional<Error> likely;
  for (const Part& part : held.parts) {
    const StoredObject& object = held.objects[part.object];
    if (!object.is_offered() || known_array(processes, object)) continue;
    const auto memory = catalog_.find_offer(object, end_ns);
    if (!memory) return memory.error();
    if (!likely || !is_connected(processes, memory->contact)) {
      likely = of_producer(error, held, object, *memory);
    }
    if (!is_connected(processes, memory->contact)) break;
  }
  return likely.value_or(error);
}

bool OfferedArrays::is_connected(const Processes& processes, const std::string& contact) {
  const std::lock_guard lock(mutex_);
  const auto known = peers_.find(contact);
  return known != peers_.end() && processes.connected(known->second);
}

void OfferedArrays::close(Processes& processes) {
  std::map<std::pair<int, std::uint64_t>, Known> arrays;
  std::map<std::string, fabric::PeerId> peers;
  {
    const std::lock_guard lock(mutex_);
    arrays.swap(arrays_);
    peers.swap(peers_);
  }
  arrays.clear();
  for (const auto& [contact, peer] : peers) {
    if (processes.connected(peer)) (void)processes.disconnect(peer);
  }
}

}  // namespace tranship::staging
