// A client's side of the protocol: who holds what, which get sees which objects. Moves no arrays.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "staging/model/distribution.hpp"
#include "staging/model/parts.hpp"
#include "staging/protocol/servers.hpp"

namespace tranship::staging {

/// A client that hears nothing looks for itself so often.
constexpr std::int64_t look_again_ns = 250'000'000;

/// PreparedPut for an object, and where it was indexed.
struct PreparedPut {
  PutRequest request;
  int primary = 0;
  std::uint64_t object = 0;
  Range range;               ///< of the primary's memory
  bool overflow = false;     ///< the primary owns no part of the box
  bool ready = true;         ///< it may be written; else after take_pages()
  bool stale = false;        ///< there is none: the variable was deleted meanwhile
  std::vector<int> indexed;  ///< other servers that know of it
  std::uint64_t order_before = 0;
  std::int64_t end_ns = 0;  ///< Of the put's time.
};

/// What a get holds until release().
struct LeasedBox {
  std::int64_t version = 0;
  std::string type;
  std::int64_t element_bytes = 0;
  std::vector<StoredObject> objects;  ///< the newest first
  std::vector<Part> parts;            ///< of the box, by object
  std::vector<std::pair<int, std::uint64_t>> leases;
  std::int64_t end_ns = 0;  ///< Of the get's time.
  /// The box itself, dense, instead of objects; it lies in the caller's buffer.
  std::span<const std::byte> data;
  std::string variable{};
};

/// Puts and gets without their bytes. Any thread may call any member. Times are of the servers'
/// clock. Cost: a put asks its primary twice (once if it goes with its data), and each other server
/// that owns a part of its box twice; a get asks each owner of its box once, and those primaries of
/// objects that are not owners.
class Catalog {
 public:
  explicit Catalog(Servers& servers) : servers_(servers), distribution_(servers.count()) {}

  /// Asked now and then by threads that wait, which give up when it says so.
  void give_up_when(std::function<bool()> interrupted) { interrupted_ = std::move(interrupted); }

  /// What goes inside a message: `fill` writes `bytes` bytes there.
  struct Data {
    std::size_t bytes = 0;
    const std::function<Status(std::byte*)>& fill;
    bool checksum = false;  ///< it is sent with one
  };
  /// Puts an object with its data, if its box belongs to one server, which has room; else it does
  /// nothing and returns false.
  Result<bool> put(const PutRequest& request, const Data& data, std::int64_t end_ns);
  Result<bool> put(const PutRequest& request, std::size_t bytes,
                   const std::function<Status(std::byte*)>& fill, std::int64_t end_ns) {
    return put(request, Data{bytes, fill}, end_ns);
  }
  /// Makes room for an object, which commit() makes visible: on its primary, or if that is full on
  /// another server. Waits while all are full.
  /// `ready`: it is written at once. Else take_pages() comes before, and the memory of a server
  /// that has little left is not taken by puts that wait.
  Result<PreparedPut> begin(const PutRequest& request, std::int64_t end_ns, bool ready = true);
  /// @error out_of_memory if the server's machine has none left; abort() then
  Status take_pages(const PreparedPut& room);
  /// `path` is told to the primary for its statistics: how the data came.
  Status commit(const PreparedPut& room, std::string_view path = {}, const Checksum& checksum = {});
  void abort(const PreparedPut& room);

  /// Waits until objects cover the box; `reply` takes the data if they are few.
  /// @error timeout, which says what is missing; not_found if the version was discarded; closed or
  ///        peer_lost if it can never come
  Result<LeasedBox> get(const GetRequest& request, ReplyBuffer& reply, std::int64_t end_ns);
  /// Calls `copy` with the parts that lie in the servers' memory, and then, one object after the
  /// other, with those that must come back from disk before; so it may hold more than the servers'
  /// memory does, and nobody waits for memory while he holds some.
  /// @error what `copy` says; timeout; io if a disk fails
  Status take(const LeasedBox& held, std::int64_t end_ns,
              const std::function<Status(const LeasedBox&)>& copy);
  /// `path` is told to the servers for their statistics; empty: nothing was read.
  /// @error not_found if a server knows the lease no longer
  Status release(const LeasedBox& held, std::string_view path = {});

  /// Waits as get() does, for the version that it would return.
  Result<std::int64_t> wait(const GetRequest& request, std::int64_t end_ns);

  /// Says what a variable will be: the request's box is its domain. `writers`: how many clients
  /// will put to it, which does not end before all of them have; 0: unknown.
  /// @error invalid_argument if it does not fit the variable, or other definitions
  Status define(const PutRequest& domain, int writers);

  /// A variable, as soon as somebody puts to it; without its versions. `bounds` says whether all
  /// servers are asked for them: else they are those of the first put.
  Result<VariableInfo> describe(const std::string& variable, bool bounds, std::int64_t end_ns);
  /// @error not_found if no server has the version
  Status discard(const std::string& variable, std::int64_t version);
  /// Takes a variable away with all its versions, and all that the servers remember of it.
  /// @error not_found if no server knows it
  Status remove(const std::string& variable);
  Result<std::vector<VariableInfo>> list();
  /// The servers, as they see themselves, in the order of their numbers.
  Result<std::vector<ServerInfo>> status();

 private:
  /// An object's primary and its number there, and the server that named it.
  using NamedBy = std::map<std::pair<int, std::uint64_t>, int>;
  using Answers = std::vector<std::pair<int, FoundObjects>>;  ///< by server
  struct KnownVariable {
    VariableMetadata metadata;
    bool declared = false;  ///< this client puts to it
  };
  /// Waiting: not whole yet, and why. Spread: one server does not know all.
  /// Stale: the variable was deleted since this client has asked its metadata server for it.
  struct Stale {};
  using LookResult = Result<std::variant<LeasedBox, Waiting, NeedsOtherServers, Stale>>;
  struct IndexServers {
    std::vector<int> servers;
    Incarnation incarnation;
  };
  /// What find() of several servers brought besides objects.
  struct FindOutcome {
    NamedBy named_by;
    std::string why;  ///< there is nothing yet
    bool stale = false;
  };
  /// The objects of one version; or the version that was named, and discarded meanwhile.
  struct GatheredVersion {
    std::optional<LeasedBox> held;
    std::optional<std::int64_t> vanished;
  };

  template <typename Request>
  Result<typename Request::Reply> ask(int server, const Request& request, ReplyBuffer& reply) {
    return staging::ask(servers_, server, request, reply);
  }
  template <typename Request>
  Result<typename Request::Reply> ask_undoable(int server, Request request, ReplyBuffer& reply);
  template <typename Request>
  Result<typename Request::Reply> ask_until_done(int server, const Request& request,
                                                 ReplyBuffer& reply, std::int64_t end_ns);
  Status pause(std::uint64_t seen, std::int64_t end_ns, const std::string& why);
  Status go_on(int rounds, std::int64_t end_ns, const std::string& why) const;

  KnownVariable remember(const std::string& variable, KnownVariable known);
  void forget(const std::string& variable);
  Result<ReplyKind> put_now(const PutRequest& request, const Data& data, std::int64_t end_ns);
  Result<PreparedPut> begin_now(const PutRequest& request, std::int64_t end_ns, bool ready);
  Result<KnownVariable> declare(const PutRequest& request, std::int64_t end_ns);
  Result<bool> ask_room(int server, Effort effort, const std::vector<int>& index_servers,
                        PreparedPut& room, std::string& why);
  Status find_room(const std::vector<int>& candidates, const std::vector<int>& index_servers,
                   PreparedPut& room, std::int64_t end_ns);
  Status index_at(const std::vector<int>& index_servers, PreparedPut& room);
  void pass_on(int server, const std::vector<Orphan>& orphans);
  Result<protocol::Described> ask_metadata_server(const std::string& variable, bool watch,
                                                  std::int64_t end_ns);
  Result<IndexServers> index_servers_of(const std::string& variable, const Box& box,
                                        std::int64_t end_ns);

  Result<LeasedBox> look_until_whole(const GetRequest& request, bool wants_data, ReplyBuffer& reply,
                                     std::int64_t end_ns);
  Result<std::optional<LeasedBox>> look_in_life(const GetRequest& asked, bool wants_data,
                                                ReplyBuffer& reply, std::int64_t end_ns);
  LookResult ask_version(const GetRequest& request, int server, ReplyBuffer& reply);
  LookResult ask_one(const GetRequest& request, int server, ReplyBuffer& reply);
  LookResult hold_objects(int server, const GetRequest& request, protocol::Objects objects,
                          ReplyBuffer& reply);
  LookResult ask_all(const GetRequest& request, const std::vector<int>& index_servers, bool watch,
                     ReplyBuffer& reply);
  Result<std::optional<LeasedBox>> gather(const GetRequest& request,
                                          const std::vector<int>& index_servers, bool watch,
                                          ReplyBuffer& reply, FindOutcome& heard);
  Result<GatheredVersion> gather_version(const GetRequest& request,
                                         const std::vector<int>& index_servers, bool watch,
                                         ReplyBuffer& reply, FindOutcome& heard);
  Status find_at(const std::vector<int>& servers, const GetRequest& request, bool watch,
                 ReplyBuffer& reply, Answers& answers, FindOutcome& heard);
  Status lease_others(const GetRequest& request, bool watch, const NamedBy& named_by,
                      LeasedBox& held, ReplyBuffer& reply);
  Status lease_at(int primary, const GetRequest& request, bool watch, const NamedBy& named_by,
                  LeasedBox& held, ReplyBuffer& reply);
  Result<Range> recall(int server, std::uint64_t lease, std::uint64_t object, std::int64_t end_ns);
  Status take_back(LeasedBox& here, std::span<const Part> away, std::int64_t end_ns,
                   const std::function<Status(const LeasedBox&)>& copy);
  Error given_up(int server, const FoundObjects& found, const Status& why);
  Status read_found(int server, const GetRequest& request, protocol::Objects& objects,
                    ReplyBuffer& reply);

  Servers& servers_;
  Distribution distribution_;
  std::function<bool()> interrupted_;
  std::atomic<RequestId> last_request_id_{0};
  std::mutex mutex_;  ///< guards what follows
  std::map<std::string, KnownVariable> known_;
};

/// For what a server grants: the request gets a request id, by which that is given up if nobody
/// waits for the reply any more.
template <typename Request>
Result<typename Request::Reply> Catalog::ask_undoable(int server, Request request,
                                                      ReplyBuffer& reply) {
  request.request_id = ++last_request_id_;
  auto answer = ask(server, request, reply);
  const bool in_doubt = !answer && (answer.error().code == ErrorCode::timeout ||
                                    answer.error().code == ErrorCode::cancelled);
  if (in_doubt) servers_.tell(server, message_of(protocol::Undo{request.request_id}));
  return answer;
}

/// Asks again after each notice, while the server lets the request wait.
template <typename Request>
Result<typename Request::Reply> Catalog::ask_until_done(int server, const Request& request,
                                                        ReplyBuffer& reply, std::int64_t end_ns) {
  const auto message = written(request);
  if (!message) return message.error();
  while (true) {
    const std::uint64_t seen = servers_.notices();
    auto answer = ask_written<Request>(servers_, server, *message, reply);
    if (!answer) return answer;
    const auto* wait = std::get_if<protocol::Wait>(&*answer);
    if (wait == nullptr) return answer;
    if (Status status = pause(seen, end_ns, wait->why); !status) return status.error();
  }
}

}  // namespace tranship::staging
