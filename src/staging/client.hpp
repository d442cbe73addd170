// A process's side of the staging service: put and get.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/processes.hpp"
#include "staging/messages.hpp"

namespace tranship::staging {

/// Any thread may call any member; calls of several threads go beside each other.
class Client {
 public:
  /// Connects `engine`, which must outlive the client, to a server.
  /// @error as Processes::connect(); unsupported if what answers there is no staging server
  static Result<std::unique_ptr<Client>> open(Engine& engine, const std::string& contact,
                                              const std::string& name,
                                              std::chrono::milliseconds timeout);
  ~Client();

  /// Puts `array` as the box whose lower corner is `lower` (as many indices as it has dimensions).
  /// When it returns, the object is visible to everybody, whole. Waits while the server is full.
  /// @error invalid_argument for arrays of several fields, or that do not fit the variable;
  ///        timeout; peer_lost; what the server said
  Status put(const std::string& variable, std::int64_t version, const Array& array,
             const std::vector<std::int64_t>& lower, std::chrono::milliseconds timeout);

  /// Waits until the whole box is there, and copies it into `target`, whose extents are the box's.
  /// Returns its version.
  /// @error timeout, which says what was missing; closed or peer_lost if it can never come
  Result<std::int64_t> get(const GetRequest& request, const Array& target,
                           std::chrono::milliseconds timeout);

  /// Waits as get() does, and moves nothing.
  Result<std::int64_t> wait(const GetRequest& request, std::chrono::milliseconds timeout);

  /// Asked now and then by threads that wait, which give up when it says so.
  void give_up_when(std::function<bool()> interrupted) { interrupted_ = std::move(interrupted); }

  /// The element type and bytes of a variable, once something was put to it.
  Result<VariableInfo> describe(const std::string& variable, std::chrono::milliseconds timeout);

  Status discard(const std::string& variable, std::int64_t version);
  Result<std::vector<VariableInfo>> list();

  /// Says that nothing more will be put, and disconnects.
  Status close();

 private:
  using Clock = std::chrono::steady_clock;
  using Buffer = std::unique_ptr<std::byte[]>;  ///< for an answer: made once, never cleared
  class Listener;

  explicit Client(Engine& engine) : engine_(engine) {}
  Result<std::span<const std::byte>> ask(const MessageWriter& question, Buffer& reply) const;
  Result<std::span<const std::byte>> ask_until_done(const MessageWriter& question, Buffer& reply,
                                                    Clock::time_point end) const;
  Status put_inline(const PutRequest& request, const Array& array, Clock::time_point end) const;
  Status put_by_copy(const PutRequest& request, const Array& array, Clock::time_point end);
  Status take_data(MessageReader& in, std::span<const std::byte> rest, const Array& target,
                   std::int64_t& version) const;
  Status read_more(Found& found, std::size_t left, Buffer& reply) const;
  Status take_parts(const Found& found, const Box& box, const Array& target, Clock::time_point end);
  Result<Array> object_array(const Range& range, const Box& box, const Array& like);
  Result<Array> segment(int number);

  Engine& engine_;
  Processes* processes_ = nullptr;
  PeerId peer_;
  std::int64_t message_bytes_max_ = message_bytes_least;  ///< what the server's answers may take
  std::shared_ptr<Listener> listener_;
  std::function<bool()> interrupted_;
  std::mutex mutex_;  ///< guards what follows
  std::map<int, Array> segments_;
};

}  // namespace tranship::staging
