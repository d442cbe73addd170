// The request handlers of a staging server: a state machine without threads or clocks.
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
#include "staging/server/attribute_table.hpp"
#include "staging/server/object_store.hpp"
#include "staging/server/reader_groups.hpp"
#include "staging/server/registry.hpp"
#include "staging/server/step_table.hpp"
#include "staging/server/watches.hpp"

namespace tranship::staging {

/// Memory for the reply to a request of one type; it accepts only that request's replies.
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
  std::span<std::byte> room() const { return room_; }

 private:
  std::span<std::byte> room_;
};

/// One server of a group. Clients send requests to each server; servers only join the first one,
/// which names them to the clients. Not thread-safe.
class Service {
 public:
  struct Options {
    ObjectStore::Options store;
    int servers = 1;
    std::string contact;                           ///< Of this server.
    std::int64_t cell_bytes = Cells::bytes_least;  ///< Least size of a cell.
    /// Capacity of a message, at least message_bytes_least.
    std::int64_t message_bytes = message_bytes_least;
    /// Returns the address of an object. Empty: only clients can access objects, and no data are
    /// sent inside messages.
    std::function<std::byte*(const Range&)> address_of;
    /// Runs `copy`, which copies or reduces elements of a put or a get, while others' requests may
    /// be answered. The memory that it accesses belongs to a put that is not committed, or is
    /// leased. Empty: it runs at once, and no request is answered meanwhile.
    std::function<void(const std::function<void()>& copy)> copy_beside;
    /// Sends a client the notice that something has changed for which it waits.
    std::function<void(ClientConnection)> notify;
    /// Carries out a move between memory and disk, and calls ended() later.
    std::function<void(const Move&)> move;
  };
  explicit Service(Options options);

  /// Answers a request. A client's next request may come when this one is answered.
  /// @error the error that the client receives
  Result<std::size_t> answer(ClientConnection from, std::span<const std::byte> request,
                             std::span<std::byte> reply);

  /// The client's connection is lost: no request comes from it any more. Its process may still
  /// access the memory that it was given, which is fenced until gone(). For clients that wait for
  /// its puts it counts as dead, unless it comes back on another connection with the same identity.
  void lost(ClientConnection from);
  /// The client has closed, and its process may still read what it has leased until gone(). For
  /// others it has ended.
  void closed(ClientConnection from);
  /// The client, or server, provably accesses nothing any more: it has closed (`cleanly`), or its
  /// process is dead. lost() need not have been called before.
  void gone(ClientConnection from, bool cleanly);

  /// Records how a move ended.
  void ended(const Move& move, const Status& status);

  /// As Residency; what becomes ready may end a client's wait.
  Status add_stock(std::int64_t bytes) {
    Status status = store_.add_stock(bytes);
    if (status) ++segments_ahead_;
    return status;
  }
  std::optional<Range> claim_stock(std::int64_t bytes) { return store_.claim_stock(bytes); }
  void return_stock(const Range& part, bool ready);

  /// Refuses new puts from now on; what is being written or read may end.
  void drain() { draining_ = true; }
  bool busy() const { return store_.busy(); }

  /// Returns whether all servers of the group have joined.
  bool complete() const;
  std::vector<VariableInfo> list() const;
  std::int64_t memory_bytes_used() const { return store_.memory_bytes_used(); }
  /// Returns the bytes of memory without pages.
  std::int64_t sparse_bytes() const { return store_.sparse_bytes(); }
  std::int64_t spilled_bytes() const { return store_.spilled_bytes(); }
  std::int64_t disk_bytes_used() const { return store_.disk_bytes_used(); }
  std::int64_t fenced_bytes() const { return store_.fenced_bytes(); }
  std::size_t withheld_steps() const { return store_.withheld_steps(); }
  int clients() const { return static_cast<int>(clients_.size()); }

 private:
  /// What clients watch that wait for a step: no variable has that name.
  static constexpr const char* steps_watch = "\n";

  struct ClientInfo {
    std::string name;  ///< The client's name.
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
  Answer on(ClientConnection from, const protocol::DiscardToo& request,
            ReplyTo<protocol::DiscardToo> reply);
  Answer on(ClientConnection from, const protocol::Finish& request,
            ReplyTo<protocol::Finish> reply);
  Answer on(ClientConnection from, const protocol::PutEmpty& request,
            ReplyTo<protocol::PutEmpty> reply);
  Answer on(ClientConnection from, const protocol::FindExtent& request,
            ReplyTo<protocol::FindExtent> reply);
  Answer on(ClientConnection from, const protocol::Remove& request,
            ReplyTo<protocol::Remove> reply);
  Answer on(ClientConnection from, const protocol::List& request,
            ReplyTo<protocol::List> reply) const;
  Answer on(ClientConnection from, const protocol::QueryStatus& request,
            ReplyTo<protocol::QueryStatus> reply) const;
  Answer on(ClientConnection from, const protocol::BeginStep& request,
            ReplyTo<protocol::BeginStep> reply);
  Answer on(ClientConnection from, const protocol::AddToStep& request,
            ReplyTo<protocol::AddToStep> reply);
  Answer on(ClientConnection from, const protocol::EndStep& request,
            ReplyTo<protocol::EndStep> reply);
  Answer on(ClientConnection from, const protocol::GiveUpStep& request,
            ReplyTo<protocol::GiveUpStep> reply);
  Answer on(ClientConnection from, const protocol::SettleStep& request,
            ReplyTo<protocol::SettleStep> reply);
  Answer on(ClientConnection from, const protocol::StepSettled& request,
            ReplyTo<protocol::StepSettled> reply);
  Answer on(ClientConnection from, const protocol::QueryStep& request,
            ReplyTo<protocol::QueryStep> reply);
  Answer on(ClientConnection from, const protocol::FindStep& request,
            ReplyTo<protocol::FindStep> reply);
  Answer on(ClientConnection from, const protocol::MoreOfStep& request,
            ReplyTo<protocol::MoreOfStep> reply);
  Answer on(ClientConnection from, const protocol::FreeStep& request,
            ReplyTo<protocol::FreeStep> reply);
  Answer on(ClientConnection from, const protocol::SetAttributes& request,
            ReplyTo<protocol::SetAttributes> reply);
  Answer on(ClientConnection from, const protocol::GetAttributes& request,
            ReplyTo<protocol::GetAttributes> reply);
  Answer on(ClientConnection from, const protocol::DefineQueue& request,
            ReplyTo<protocol::DefineQueue> reply);
  Answer on(ClientConnection from, const protocol::JoinReaders& request,
            ReplyTo<protocol::JoinReaders> reply);
  Answer on(ClientConnection from, const protocol::LeaveReaders& request,
            ReplyTo<protocol::LeaveReaders> reply);
  Answer on(ClientConnection from, const protocol::TakeStep& request,
            ReplyTo<protocol::TakeStep> reply);
  Answer on(ClientConnection from, const protocol::ReleaseStep& request,
            ReplyTo<protocol::ReleaseStep> reply);
  Answer on(ClientConnection from, const protocol::Batch& request, ReplyTo<protocol::Batch> reply);
  Answer on(ClientConnection from, const protocol::Reduce& request,
            ReplyTo<protocol::Reduce> reply);
  Answer answer_one(ClientConnection from, std::span<const std::byte> request,
                    std::span<std::byte> reply);
  Answer on(ClientConnection from, const protocol::Offer& request, ReplyTo<protocol::Offer> reply);
  Answer on(ClientConnection from, const protocol::EndOffers& request,
            ReplyTo<protocol::EndOffers> reply);
  Answer on(ClientConnection from, const protocol::WithdrawEntry& request,
            ReplyTo<protocol::WithdrawEntry> reply);
  Answer on(ClientConnection from, const protocol::QueryOffer& request,
            ReplyTo<protocol::QueryOffer> reply);

  bool is_metadata_server(const std::string& variable) const {
    return distribution_.servers() == 1 ||
           distribution_.metadata_server(variable) == options_.store.server;
  }
  void take_part(ClientConnection from, const std::string& variable, std::int64_t version,
                 bool finished, bool box);
  bool is_stale(const std::string& variable, const Incarnation& incarnation) const;
  std::optional<Box> bounds_of(const std::string& variable) const;
  template <typename Request>
  Answer objects_of(ClientConnection from, FoundObjects found, ReplyTo<Request> reply);
  /// Copies or reads elements; other clients' requests may be answered meanwhile. `work` may use
  /// variables of the caller and the memory of objects, but no member of this service.
  template <typename Work>
  void copy_beside(const Work& work) {
    if (options_.copy_beside) return options_.copy_beside(std::cref(work));
    work();
  }
  Answer data_of(ClientConnection from, const FoundObjects& found, const Box& box,
                 ReplyTo<protocol::Get> reply);
  template <typename Request>
  Result<std::variant<FoundObjects, std::size_t>> find_or_reply(ClientConnection from,
                                                                const Request& request,
                                                                ReplyTo<Request> reply);
  /// Returns a page of list(): what comes after a version of a variable, at most `rows_max` rows.
  std::vector<VariableInfo> list_from(const std::string& after, std::int64_t after_version,
                                      std::size_t rows_max) const;
  void complete_info(VariableInfo& info) const;
  template <typename Request>
  Answer wait(ClientConnection from, const std::string& variable, std::string why,
              ReplyTo<Request> reply) {
    waiting_.add(variable, from);
    return reply(protocol::Wait{std::move(why)});
  }
  void end(ClientConnection from, bool cleanly);
  void conclude();
  void settle_ended_steps();
  Status check_step(ClientConnection from, StepId step) const;
  ObjectStore::Options store_options();
  static Error closing();
  bool is_first() const { return options_.store.server == 0; }
  protocol::StepStateFound state_of(ClientConnection from, StepId id);
  Answer step_found(ClientConnection from, Result<StepTable::Found> found,
                    std::span<std::byte> reply);
  bool is_connected(const ClientId& id) const;

  Options options_;
  ObjectStore store_;
  Registry registry_;
  StepTable steps_;               ///< Of the first server.
  ReaderGroups readers_{steps_};  ///< Of the first server.
  AttributeTable attributes_;     ///< Of the first server.
  Distribution distribution_;
  /// Statistics of the variables to which a client has put here.
  std::unordered_map<std::string, VariableTraffic> traffic_;
  std::vector<std::string> contacts_;                 ///< Of all servers; empty: it has not joined.
  std::unordered_map<ClientConnection, int> joined_;  ///< Other servers, on the first one.
  std::set<int> dead_servers_;                        ///< Servers that are provably gone.
  std::unordered_map<ClientConnection, ClientInfo> clients_;
  /// Clients whose connections are lost, until gone(); without an identity if they have ended.
  std::unordered_map<ClientConnection, std::optional<ClientId>> lost_;
  Watches waiting_;                ///< For changes of a variable; "": of memory or disk.
  std::set<std::string> changes_;  ///< Of the registry.
  std::set<ClientConnection> waiting_for_servers_;
  /// Objects of gets that did not fit into one reply, by lease, until its release.
  std::map<std::pair<ClientConnection, std::uint64_t>, FoundObjects> long_answers_;
  int segments_ahead_ = 0;  ///< Segments whose pages are taken before they are needed.
  bool draining_ = false;
};

}  // namespace tranship::staging
