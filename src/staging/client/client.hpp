// A process's side of the staging service: put and get.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/gate.hpp"
#include "engine/engine.hpp"
#include "engine/processes.hpp"
#include "staging/client/catalog.hpp"
#include "staging/client/links.hpp"

namespace tranship::staging {

/// Any thread may call any member; calls of several threads go beside each other. After close(),
/// and in a fork, calls fail with `closed`; close() ends those that run with it.
class Client {
 public:
  /// Connects `engine`, which must outlive the client, to the servers of a group, whose first one
  /// has that contact. `patience.interrupted` ends later waits and copies, too.
  /// @error as Links::open()
  static Result<std::unique_ptr<Client>> open(Engine& engine, const std::string& contact,
                                              const std::string& name, const Patience& patience);
  ~Client();

  /// Puts `array` as the box whose lower corner is `lower` (as many indices as it has dimensions).
  /// When it returns, the object is visible to everybody, whole. Waits while the server is full.
  /// Reads the array when the events `after` have ended; room is found meanwhile. `checksum`: a get
  /// that takes the object whole fails unless it gets the bytes that are read now.
  /// @error invalid_argument for arrays of several fields, or that do not fit the variable;
  ///        timeout; peer_lost; what the server said; the first of the events' errors
  Status put(const std::string& variable, std::int64_t version, const Array& array,
             const std::vector<std::int64_t>& lower, std::chrono::milliseconds timeout,
             std::span<const Event> after = {}, bool checksum = false);

  /// Waits until the whole box is there, and copies it into `target`, whose extents are the box's.
  /// Returns its version.
  /// @error timeout, which says what was missing; closed or peer_lost if it can never come
  Result<std::int64_t> get(const GetRequest& request, const Array& target,
                           std::chrono::milliseconds timeout);

  /// Waits as get() does, and moves nothing.
  Result<std::int64_t> wait(const GetRequest& request, std::chrono::milliseconds timeout);

  /// Says what a variable will be: its elements, its domain, and how many clients will put to it, 0
  /// if that is not known. With it, a variable does not end before all of them have put and closed.
  /// @error invalid_argument if it does not fit the variable, or other definitions
  Status define(const std::string& variable, const Field& field, const Box& domain, int writers);

  /// The element type and bounds of a variable, once something was put to it. Without `bounds` only
  /// one server is asked, and they are those of the first put.
  Result<VariableInfo> describe(const std::string& variable, std::chrono::milliseconds timeout,
                                bool bounds = true);

  Status discard(const std::string& variable, std::int64_t version);
  /// Takes a variable away with all its versions; it may be put to anew, as something else. Who
  /// puts to it meanwhile fails, or puts to the new one.
  /// @error not_found if no server knows it
  Status remove(const std::string& variable);
  Result<std::vector<VariableInfo>> list();
  /// host:port of the first server.
  const std::string& contact() const { return links_->contact(); }
  /// What this client has put and got.
  std::map<std::string, VariableTraffic> traffic() const;
  /// The servers, as they see themselves.
  Result<std::vector<ServerInfo>> status();

  /// Ends the calls of other threads: cancels their copies and waits until none of them touches the
  /// servers' memory. Then says that nothing more will be put, and disconnects. Bounded in time.
  Status close();
  bool closed() const { return gate_.closed(); }

 private:
  /// What ends the waits of this client.
  struct Ending {
    std::function<bool()> interrupted;
    std::atomic<bool> closing{false};

    bool now() const { return closing.load() || (interrupted && interrupted()); }
  };

  Client(Engine& engine, std::unique_ptr<Links> links, std::shared_ptr<Ending> ending)
      : engine_(engine), links_(std::move(links)), catalog_(*links_), ending_(std::move(ending)) {}
  bool forked() const { return fork_generation_ != fork_generation(); }
  /// @error closed
  Result<Gate::Pass> enter() const;
  /// Runs a call, which fails with `closed` if this client was closed before or meanwhile.
  template <typename Call>
  auto call(const Call& body) -> decltype(body());
  Error why_ended(const Error& error) const;
  Status put_inside(const std::string& variable, std::int64_t version, const Array& array,
                    const std::vector<std::int64_t>& lower, std::chrono::milliseconds timeout,
                    std::span<const Event> after, bool checksum);
  Result<std::int64_t> get_inside(const GetRequest& request, const Array& target,
                                  std::chrono::milliseconds timeout);
  std::int64_t end_ns(std::chrono::milliseconds timeout) const {
    return links_->now_ns() + std::chrono::nanoseconds(timeout).count();
  }
  struct Putting {
    const PutRequest& request;
    const Array& array;
    std::int64_t end_ns = 0;
    std::span<const Event> after;
    bool checksum = false;
  };
  /// Returns its path.
  Result<std::string> put_object(const Putting& put);
  Result<std::string> put_by_copy(const Putting& put);
  Result<std::string> copy_into(const Array& array, const Array& target, std::int64_t end) const;
  Result<Checksum> checksum_of(const Array& array);
  Status copy_out(const Array& array, std::byte* buffer);
  Status check_whole(const LeasedBox& held, const Box& box, const Array& target);
  Status await(std::span<const Event> after, std::int64_t end_ns) const;
  Status wait_for(const Event& event, std::int64_t end_ns) const;
  struct Got {
    std::int64_t version = 0;
    std::string path;
  };
  Result<Got> get_objects(const GetRequest& request, const Array& target, std::int64_t end_ns);
  Status take_data(const LeasedBox& held, const Array& target) const;
  Status take_parts(const LeasedBox& held, const Box& box, const Array& target, std::int64_t end_ns,
                    std::string& path);
  /// The way that it takes; of several copies the first one's.
  std::string path_of(const Event& event) const;
  Status finish(const Event& event, std::int64_t end_ns) const;
  Result<Array> object_array(int server, const Range& range, const Box& box, const Array& like,
                             std::int64_t end);
  Result<Array> segment(int server, int number, std::int64_t end);

  Engine& engine_;
  std::unique_ptr<Links> links_;
  Catalog catalog_;
  std::shared_ptr<Ending> ending_;
  const std::uint64_t fork_generation_ = fork_generation();
  mutable Gate gate_;         ///< calls
  mutable Gate copying_;      ///< those that copy into or out of the servers' memory
  std::mutex closing_;        ///< of who closes
  mutable std::mutex mutex_;  ///< guards what follows
  std::map<std::pair<int, int>, Array> segments_;  ///< by server and number
  VariableTraffic& traffic_of(const std::string& variable);
  std::map<std::string, VariableTraffic> traffic_;  ///< those beyond a few thousand together
};

}  // namespace tranship::staging
