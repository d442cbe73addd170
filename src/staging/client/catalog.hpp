// A client's side of the protocol: puts and gets without their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "staging/client/known_variables.hpp"
#include "staging/client/object_search.hpp"
#include "staging/client/put_batch.hpp"
#include "staging/client/put_progress.hpp"
#include "staging/client/request_sender.hpp"
#include "staging/client/room_finder.hpp"
#include "staging/client/step_client.hpp"
#include "staging/model/distribution.hpp"

namespace tranship::staging {

/// Times that a call begins again because its variable was deleted meanwhile.
constexpr int attempts_max = 8;

/// Why a search goes on after a step was settled.
constexpr const char* step_was_settled = "steps that have ended are being shown";

/// Returns the error of a call that has begun again so often.
Error often_deleted(const std::string& variable);

/// A version of a variable, and the box around what was put to it.
struct VersionExtent {
  std::int64_t version = 0;
  std::string type;
  std::int64_t element_bytes = 0;
  Box box;
  /// A bit for each dimension in which nothing lies; the box has one index there.
  std::uint32_t empty_dimensions = 0;
};

/// A version that will never be whole.
struct SkippedVersion {
  std::int64_t version = 0;
  std::string why;
};

/// Why no view of a server's memory can be a box.
struct NoView {
  Error why;
};

/// Asks for a version by the box around what was put to it.
struct VersionQuery {
  std::string variable;
  VersionChoice choice = VersionChoice::exact;
  std::int64_t version = 0;
};

/// Puts and gets of variables, without their bytes. Any thread may call any member. Times are of
/// the servers' clock. Cost: a put sends two requests to its primary (one if it carries the data)
/// and two to each other index server of its box; a get sends one to each index server, and one to
/// each primary that is none of them. Requests that do not depend on each other leave together: a
/// get waits for two round trips in sequence, however many servers there are; one more for a
/// variable that this client has not used before.
class Catalog {
 public:
  explicit Catalog(Servers& servers)
      : requester_(servers),
        distribution_(servers.count()),
        room_finder_(requester_),
        search_(requester_),
        steps_(requester_) {}

  StepClient& steps() { return steps_; }

  /// As PutProgress::let_rise().
  void let_versions_rise() { progress_.let_rise(); }

  /// As RequestSender::give_up_when().
  void give_up_when(std::function<bool()> interrupted) {
    requester_.give_up_when(std::move(interrupted));
  }

  /// Elements that are sent inside a message: `fill` writes `bytes` bytes there.
  struct Data {
    std::size_t bytes = 0;
    const std::function<Status(std::byte*)>& fill;
    bool checksum = false;  ///< Whether a checksum is sent.
  };
  /// Puts an object with its data, if its box has one index server and that server has room.
  /// Otherwise does nothing and returns false.
  Result<bool> put(const PutRequest& request, const Data& data, std::int64_t end_ns);
  Result<bool> put(const PutRequest& request, std::size_t bytes,
                   const std::function<Status(std::byte*)>& fill, std::int64_t end_ns) {
    return put(request, Data{bytes, fill}, end_ns);
  }
  /// Gets room for an object, which commit() makes visible: on the preferred server, or if that is
  /// full on an overflow server. Waits while all are full. The other index servers learn the object
  /// while it is copied: commit() waits for them.
  /// `ready`: Whether the object is written at once. Otherwise take_pages() is called before, so
  /// that puts that wait take no memory of the machine.
  Result<PreparedPut> begin(const PutRequest& request, std::int64_t end_ns, bool ready = true) {
    return begin({request, {}, end_ns, ready});
  }
  /// Begins an object that stays in this client's memory; commit() makes it visible.
  Result<PreparedPut> begin_offer(const PutRequest& request, const OfferedMemory& memory,
                                  std::int64_t end_ns) {
    return begin({request, memory, end_ns, true});
  }
  /// Has the server take the pages of the room, unless it was ready.
  /// @error out_of_memory if the server's machine has none left; abort() then
  Status take_pages(const PreparedPut& put);
  /// Makes the object visible. `path`: How the data were copied, for the primary's statistics.
  /// @error that of a server; not_found with `put.stale` set if the variable was deleted meanwhile.
  ///        The room was given back then.
  Status commit(PreparedPut& put, std::string_view path = {}, const Checksum& checksum = {});
  void abort(PreparedPut& put);
  /// Asks which of offers at one server have not ended. `withdraw`: Whether they are withdrawn.
  Result<protocol::OffersLeft> end_offers(int server, const std::vector<std::uint64_t>& objects,
                                          bool withdraw, std::int64_t end_ns);
  /// Withdraws an offer whose commit was not answered, without waiting.
  void withdraw_later(const PreparedPut& put);
  /// Removes the index entries of an offer that was withdrawn; a server that is lost has none.
  Status withdraw_entries(const protocol::IndexEntryId& entry, const std::vector<int>& servers,
                          std::int64_t end_ns);
  /// Does so without waiting.
  void withdraw_entries_later(const protocol::IndexEntryId& entry, const std::vector<int>& servers);
  /// Returns where an object of a lease lies that its producer offers.
  /// @error peer_lost if the producer is lost
  Result<OfferedMemory> find_offer(const StoredObject& object, std::int64_t end_ns);
  std::uint64_t notices() const { return requester_.notices(); }
  std::int64_t now_ns() const { return requester_.now_ns(); }
  /// As RequestSender::pause().
  Status pause(std::uint64_t seen, std::int64_t end_ns, const std::string& why) {
    return requester_.pause(seen, end_ns, why);
  }
  /// Puts a box without elements: the request's box has one index in each of the dimensions that
  /// have none, of which `empty_dimensions` has the bits.
  Status put_empty(const PutRequest& request, std::uint32_t empty_dimensions, std::int64_t end_ns);
  /// Says that this client has nothing in the versions from `first` to `last`, none if `last` is
  /// below `first`, and counts as one that puts to the variable, which need not exist yet.
  Status nothing(const std::string& variable, std::int64_t first, std::int64_t last);

  /// Returns an object that puts many objects together.
  PutBatch put_batch(std::int64_t end_ns) {
    return {requester_, distribution_, known_, progress_, end_ns};
  }

  /// Waits until objects cover the box, and leases them; `reply` takes the data if they are few.
  /// For `next`, versions that have something of the box and will never cover it are passed by.
  /// @error timeout, which says what is missing; not_found if the version was discarded; closed or
  ///        peer_lost if it can never come
  Result<LeasedBox> get(const GetRequest& request, ReplyBuffer& reply, std::int64_t end_ns);
  /// Waits as get() does, and leases the one object in which the whole box lies: `parts` and
  /// `leases` have one element each. The object lies in its primary's memory until release(), and
  /// comes back from disk for that.
  /// @error as get(); as take()
  Result<std::variant<LeasedBox, NoView>> lease_object(const GetRequest& request,
                                                       ReplyBuffer& reply, std::int64_t end_ns);
  /// Calls `copy` with the parts that lie in the servers' memory, and then, one object after the
  /// other, with those that must come back from disk before. So a box may be larger than the
  /// servers' memory, and a client that waits for memory holds none.
  /// @error what `copy` says; timeout; io if a disk fails
  Status take(const LeasedBox& held, std::int64_t end_ns,
              const std::function<Status(const LeasedBox&)>& copy);
  /// Has the servers reduce the parts of a box, which lie in their memory, and merges the results
  /// with `into`. `box`: The whole box. Pieces of a part follow each other; several are under way.
  /// @error unsupported if a server's memory is a GPU's; timeout; peer_lost
  Status reduce(const LeasedBox& here, const NumberType& type, const Reduction& reduction,
                const Box& box, std::int64_t end_ns, Reduced& into);
  /// Finds boxes of exact versions, in as many round trips for all of them as for one. Calls `take`
  /// with the number of each request and its box: its objects, or its elements, which hold during
  /// the call. Returns the numbers of those that it cannot find so, in their order: get() finds
  /// them one by one.
  /// @error what a server or `take` says; `take` is not called any more then
  Result<std::vector<std::size_t>> get_all(
      std::span<const GetRequest> requests, std::int64_t end_ns,
      const std::function<Status(std::size_t, LeasedBox)>& take);
  /// As ObjectSearch::release_all().
  void release_all(std::span<const LeasedBox> held, std::string_view path = {}) {
    search_.release_all(held, path);
  }
  /// As ObjectSearch::release().
  void release(const LeasedBox& held, std::string_view path = {}) { search_.release(held, path); }

  /// Waits as get() does, and returns the version that it would return.
  /// `skipped`: Gets the versions that were passed by, also if the wait fails.
  Result<std::int64_t> wait(const GetRequest& request, std::int64_t end_ns,
                            std::vector<SkippedVersion>* skipped = nullptr);

  /// Waits until a version is whole by its own bounds, and returns them. It is whole when objects
  /// cover the box around what was put to it, or the domain if there is one, and each client that
  /// puts to the variable has taken part in it; of the latter only those need that have put no box
  /// yet if it covers all that was ever put to the variable. For `next`, each must have finished it
  /// (PutProgress).
  /// @error as get()
  Result<VersionExtent> find_version(const VersionQuery& query, std::int64_t end_ns,
                                     std::vector<SkippedVersion>* skipped = nullptr);
  /// Waits until something of the version is there, and returns the box around what is.
  /// @error as get()
  Result<VersionExtent> extent_of(const std::string& variable, std::int64_t version,
                                  std::int64_t end_ns);
  /// Waits until something of the version is there, and returns the boxes of its objects, without
  /// those that later ones hide whole.
  Result<std::vector<Box>> boxes_of(const std::string& variable, std::int64_t version,
                                    std::int64_t end_ns);

  /// Defines a variable: the request's box is its domain. `writers`: Number of clients that will
  /// put to it; it does not end before all of them have. 0: unknown.
  /// @error invalid_argument if it does not fit the variable, or other definitions
  Status define(const PutRequest& domain, int writers);

  /// Waits until the variable exists, and returns it without its versions. `bounds`: Whether all
  /// servers are asked for them; otherwise they are those of the first put.
  Result<VariableInfo> describe(const std::string& variable, bool bounds, std::int64_t end_ns);
  /// Discards a version on all servers, those included that have nothing of it.
  /// @error not_found if no server has the version
  Status discard(const std::string& variable, std::int64_t version);
  /// Deletes a variable with all its versions, and all that the servers remember of it.
  /// @error not_found if no server has it
  Status remove(const std::string& variable);
  Result<std::vector<VariableInfo>> list();
  /// Returns how many clients are connected to the first server, as all of a group are.
  Result<int> clients(std::int64_t end_ns);
  /// Returns the state of each server, in the order of their numbers.
  Result<std::vector<ServerInfo>> status();

 private:
  /// What a search is for.
  enum class Wanted {
    version,  ///< That of a get.
    data,     ///< The objects, or the elements if they are few.
    objects,
  };
  struct IndexServers {
    std::vector<int> servers;
    Incarnation incarnation;
  };

  /// What is there of a version, or why it is not whole.
  struct Look {
    std::optional<VersionExtent> whole{};
    std::string why{};
    std::optional<std::int64_t> gap{};  ///< A version that has something, and is not whole.
    bool never = false;                 ///< Whether it can never become whole.
    bool died = false;                  ///< Whether a client that put to the variable has.
    Ending ending = Ending::none;
    bool stale = false;
    std::uint64_t step = 0;  ///< As FoundObjects::step.
  };

  Result<ReplyKind> put_now(const PutRequest& request, const Data& data, std::int64_t end_ns,
                            bool& finishes);
  struct Beginning {
    const PutRequest& request;
    std::optional<OfferedMemory> offer{};
    std::int64_t end_ns = 0;
    bool ready = true;
  };
  Result<PreparedPut> begin(const Beginning& beginning);
  Result<PreparedPut> begin_now(const Beginning& beginning);
  Result<ReplyKind> put_empty_now(const PutRequest& request, std::uint32_t empty_dimensions,
                                  std::int64_t end_ns, bool finishes);
  void give_back(PreparedPut& put);
  void confirm(const PreparedPut& put, std::uint64_t order, RequestSender::NamedOrphans orphans);
  void tell_part(const PutRequest& request, int primary, bool finishes);
  void report_left(const PutRequest& request, bool finishes);
  Result<bool> settle_beside(const Look& look, int rounds, std::int64_t end_ns);
  Result<Look> look_for(VersionQuery& query, std::int64_t end_ns);
  Result<Look> look_at(const VersionQuery& query, std::int64_t version,
                       const protocol::Described& described, std::int64_t end_ns);
  Result<std::optional<Extent>> extent_on_all(const VersionQuery& query,
                                              const VariableMetadata& metadata, Look& look,
                                              std::int64_t end_ns);
  Result<SearchOutcome> search_once(const GetRequest& request, std::int64_t end_ns);
  Result<std::optional<Box>> bounds_of_all(const std::string& variable,
                                           const protocol::Described& described,
                                           std::int64_t end_ns);
  Result<KnownVariable> declare(const PutRequest& request, std::int64_t end_ns, bool empty = false);
  Result<protocol::Described> ask_metadata_server(const protocol::Describe& describe,
                                                  std::int64_t end_ns);
  Result<std::vector<std::optional<IndexServers>>> index_servers_of_all(
      std::span<const GetRequest> requests, std::int64_t end_ns);
  Result<IndexServers> index_servers_of(const std::string& variable, const Box& box,
                                        std::int64_t end_ns);
  Result<LeasedBox> find_complete(const GetRequest& request, Wanted wanted, ReplyBuffer& reply,
                                  std::int64_t end_ns, std::vector<SkippedVersion>* skipped);
  Result<std::optional<LeasedBox>> find_in_incarnation(GetRequest& request, Wanted wanted,
                                                       ReplyBuffer& reply, std::int64_t end_ns,
                                                       std::vector<SkippedVersion>* skipped);
  Status discard_too(const std::vector<int>& servers, const std::string& variable,
                     std::int64_t version, const VariableMetadata& metadata);
  static Result<std::optional<Ending>> ending_of(SentRequests<protocol::Describe>& described);
  void loosen(int server, std::uint64_t lease);
  Result<Range> recall(int server, std::uint64_t lease, std::uint64_t object, std::int64_t end_ns);
  Status keep_object(LeasedBox& held, ReplyBuffer& reply);
  Status take_back(LeasedBox& here, std::span<const Part> away, std::int64_t end_ns,
                   const std::function<Status(const LeasedBox&)>& copy);

  RequestSender requester_;
  Distribution distribution_;
  KnownVariables known_;
  PutProgress progress_;
  RoomFinder room_finder_;
  ObjectSearch search_;
  StepClient steps_;
};

}  // namespace tranship::staging
