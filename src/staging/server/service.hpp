// What a staging server answers: a state machine, which knows neither threads nor clocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "staging/protocol/messages.hpp"
#include "staging/server/object_store.hpp"
#include "staging/server/registry.hpp"
#include "staging/server/watches.hpp"

namespace tranship::staging {

/// Room for the reply to a request of one type: it takes only what answers that.
template <typename Request>
class ReplyTo {
 public:
  explicit ReplyTo(std::span<std::byte> room) : room_(room) {}

  /// Stores the reply; returns its length.
  /// @error as write_reply()
  template <typename Message>
    requires std::is_constructible_v<typename Request::Reply, Message>
  Result<std::size_t> operator()(const Message& message) const {
    return write_reply(room_, message);
  }
  std::size_t bytes() const { return room_.size(); }

 private:
  std::span<std::byte> room_;
};

/// One server of a group. Clients speak with each; servers hardly do with each other: they meet at
/// the first one, which tells clients who the others are. Not thread-safe.
class Service {
 public:
  struct Options {
    ObjectStore::Options store;
    int servers = 1;
    std::string contact;                           ///< of this server
    std::int64_t cell_bytes = Cells::bytes_least;  ///< of the cells of variables, at least
    /// What a message holds, at least message_bytes_least.
    std::int64_t message_bytes = message_bytes_least;
    /// Where an object lies. Empty: only clients reach it, and no data go inside messages.
    std::function<std::byte*(const Range&)> address_of;
    /// Runs `copy`, which copies the elements of a put or a get, while other clients' questions may
    /// be answered. The memory that it touches belongs to a put that is not committed, or is
    /// leased. Empty: it runs at once, and no question is answered meanwhile.
    std::function<void(const std::function<void()>& copy)> copy_beside;
    /// Tells a client that something has changed for which it waits.
    std::function<void(ClientConnection)> notify;
    /// Takes what is to be moved between memory and disk; ended() says how it went.
    std::function<void(const Move&)> move;
  };
  explicit Service(Options options);

  /// Answers a question. A client's next one may come when this one is answered.
  /// @error what the client is told
  Result<std::size_t> answer(ClientConnection from, std::span<const std::byte> request,
                             std::span<std::byte> reply);

  /// The client's connection is gone: nothing comes from it any more. Its process may still write
  /// and read the memory that it was given, which is fenced until gone(); it counts as dead for who
  /// waits for its puts, unless it comes back as another owner with the same identity. Final for
  /// this owner.
  void lost(ClientConnection from);
  /// The client, or server, provably touches nothing any more: it said so (`cleanly`, if that was
  /// its end in good order), or its process is dead. It need not have been lost() before.
  void gone(ClientConnection from, bool cleanly);

  /// How a move ended.
  void ended(const Move& move, const Status& status);

  /// From now on nothing new is put; what is being written or read may end.
  void drain() { draining_ = true; }
  bool busy() const { return store_.busy(); }

  /// Whether all servers of the group have come.
  bool complete() const;
  std::vector<VariableInfo> list() const;
  std::int64_t memory_bytes_used() const { return store_.memory_bytes_used(); }
  /// Memory that the server has not taken from the system yet.
  std::int64_t sparse_bytes() const { return store_.sparse_bytes(); }
  std::int64_t spilled_bytes() const { return store_.spilled_bytes(); }
  std::int64_t disk_bytes_used() const { return store_.disk_bytes_used(); }
  std::int64_t fenced_bytes() const { return store_.fenced_bytes(); }
  int clients() const { return static_cast<int>(clients_.size()); }

 private:
  struct ClientInfo {
    std::string name;  ///< what it calls itself
    ClientId id;
  };
  using Answer = Result<std::size_t>;

  /// The largest object, in bytes, that goes inside a message.
  std::int64_t data_bytes() const {
    return options_.address_of ? inline_bytes(options_.message_bytes) : 0;
  }

  Answer on(ClientConnection from, const protocol::Hello& request, ReplyTo<protocol::Hello> reply);
  Answer on(ClientConnection from, const protocol::Join& request, ReplyTo<protocol::Join> reply);
  Answer on(ClientConnection from, const protocol::Define& request,
            ReplyTo<protocol::Define> reply);
  Answer on(ClientConnection from, const protocol::Declare& request,
            ReplyTo<protocol::Declare> reply);
  Answer on(ClientConnection from, const protocol::Describe& request,
            ReplyTo<protocol::Describe> reply);
  Answer on(ClientConnection from, const protocol::Bounds& request,
            ReplyTo<protocol::Bounds> reply) const;
  Answer on(ClientConnection from, const protocol::Put& request, ReplyTo<protocol::Put> reply);
  Answer on(ClientConnection from, const protocol::Begin& request, ReplyTo<protocol::Begin> reply);
  Answer on(ClientConnection from, const protocol::TakePages& request,
            ReplyTo<protocol::TakePages> reply);
  Answer on(ClientConnection from, const protocol::Commit& request,
            ReplyTo<protocol::Commit> reply);
  Answer on(ClientConnection from, const protocol::Abort& request, ReplyTo<protocol::Abort> reply);
  Answer on(ClientConnection from, const protocol::Index& request, ReplyTo<protocol::Index> reply);
  Answer on(ClientConnection from, const protocol::Unindex& request,
            ReplyTo<protocol::Unindex> reply);
  Answer on(ClientConnection from, const protocol::Confirm& request,
            ReplyTo<protocol::Confirm> reply);
  Answer on(ClientConnection from, const protocol::Get& request, ReplyTo<protocol::Get> reply);
  Answer on(ClientConnection from, const protocol::QueryVersion& request,
            ReplyTo<protocol::QueryVersion> reply);
  Answer on(ClientConnection from, const protocol::Find& request, ReplyTo<protocol::Find> reply);
  Answer on(ClientConnection from, const protocol::Lease& request, ReplyTo<protocol::Lease> reply);
  Answer on(ClientConnection from, const protocol::More& request, ReplyTo<protocol::More> reply);
  Answer on(ClientConnection from, const protocol::Recall& request,
            ReplyTo<protocol::Recall> reply);
  Answer on(ClientConnection from, const protocol::Release& request,
            ReplyTo<protocol::Release> reply);
  Answer on(ClientConnection from, const protocol::Undo& request, ReplyTo<protocol::Undo> reply);
  Answer on(ClientConnection from, const protocol::DropOrphans& request,
            ReplyTo<protocol::DropOrphans> reply);
  Answer on(ClientConnection from, const protocol::Discard& request,
            ReplyTo<protocol::Discard> reply);
  Answer on(ClientConnection from, const protocol::Remove& request,
            ReplyTo<protocol::Remove> reply);
  Answer on(ClientConnection from, const protocol::List& request,
            ReplyTo<protocol::List> reply) const;
  Answer on(ClientConnection from, const protocol::QueryStatus& request,
            ReplyTo<protocol::QueryStatus> reply) const;

  bool is_stale(const std::string& variable, const Incarnation& incarnation) const;
  std::optional<Box> bounds_of(const std::string& variable) const;
  template <typename Request>
  Answer objects_of(ClientConnection from, FoundObjects found, ReplyTo<Request> reply);
  template <typename Copy>
  void copy_beside(const Copy& copy);
  Answer data_of(ClientConnection from, const FoundObjects& found, const Box& box,
                 ReplyTo<protocol::Get> reply);
  Result<std::variant<FoundObjects, Waiting, NeedsOtherServers>> look(ClientConnection from,
                                                                      const GetRequest& request,
                                                                      RequestId request_id);
  /// A page of list(): what comes after a version of a variable, at most so many rows.
  std::vector<VariableInfo> list_from(const std::string& after, std::int64_t after_version,
                                      std::size_t rows_max) const;
  void complete_info(VariableInfo& info) const;
  template <typename Request>
  Answer wait(ClientConnection from, const std::string& variable, std::string why,
              ReplyTo<Request> reply);
  void conclude();
  bool is_connected(const ClientId& id) const;

  Options options_;
  ObjectStore store_;
  Registry registry_;
  Distribution distribution_;
  /// Of the variables of which something came.
  std::unordered_map<std::string, VariableTraffic> traffic_;
  std::vector<std::string> contacts_;  ///< of all servers; empty: it has not come
  std::unordered_map<ClientConnection, ClientInfo> clients_;
  std::unordered_map<ClientConnection, ClientId>
      lost_;                       ///< clients whose connections are gone, until gone()
  Watches waiting_;                ///< for a change of a variable; of "": of memory, or the disk
  std::set<std::string> changes_;  ///< of the registry
  std::set<ClientConnection> waiting_for_servers_;
  /// What gets found that no message has room for, by lease, until the release.
  std::map<std::pair<ClientConnection, std::uint64_t>, FoundObjects> long_answers_;
  bool draining_ = false;
};

}  // namespace tranship::staging
