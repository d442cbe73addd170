// Finding the objects of a box, on one server or on several, and leasing them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "staging/client/batched_requests.hpp"
#include "staging/model/parts.hpp"

namespace tranship::staging {

/// A box that is leased until release(): its objects, or its data.
struct LeasedBox {
  std::int64_t version = 0;
  std::string type;
  std::int64_t element_bytes = 0;
  std::vector<StoredObject> objects;                  ///< The newest first.
  std::vector<Part> parts;                            ///< Of the box, by object.
  std::vector<std::pair<int, std::uint64_t>> leases;  ///< Server and number.
  std::int64_t end_ns = 0;                            ///< End of the get's time.
  /// The dense box itself, instead of objects; it lies in the caller's buffer.
  std::span<const std::byte> data;
  std::string variable{};
  std::uint64_t step = 0;  ///< As FoundObjects::step.
};

/// The variable was deleted since the client has asked its metadata server for it.
struct StaleVariable {};

/// Waiting: the box is not complete yet. NeedsOtherServers: one server does not know all objects.
using SearchOutcome = std::variant<LeasedBox, Waiting, NeedsOtherServers, StaleVariable>;

/// Searches once; waiting is the caller's. Any thread may call any member. Cost: a round trip for
/// the requests to all index servers, and one for those to all primaries that are none of them. One
/// more for each `pages_together` further messages that a server's objects need; for the next or
/// latest version, two more for each one that not all index servers name, or that lacks something.
class ObjectSearch {
 public:
  explicit ObjectSearch(RequestSender& requester) : requester_(requester) {}

  /// Finds the version that a get would return, on the only index server of its box.
  Result<SearchOutcome> version_on(const GetRequest& request, int server, ReplyBuffer& reply);
  /// Finds the box on its only index server; `reply` takes the data if they are few. Of objects
  /// that other servers hold, leases those there: NeedsOtherServers if they do not cover the box.
  Result<SearchOutcome> on_one(const GetRequest& request, int server, ReplyBuffer& reply);
  /// Reads that server's reply to a Get of the box, as on_one() does.
  Result<SearchOutcome> read_got(const GetRequest& request, int server,
                                 Result<protocol::Get::Reply>& answer, std::int64_t end_ns);
  /// Finds the objects of the box on all its index servers.
  /// `watch`: Whether the servers send notices of changes from now on.
  Result<SearchOutcome> on_all(const GetRequest& request, const std::vector<int>& index_servers,
                               bool watch, ReplyBuffer& reply);

  /// Returns the boxes of the visible objects that meet that of an exact version.
  Result<std::vector<Box>> boxes(const GetRequest& request, const std::vector<int>& index_servers,
                                 ReplyBuffer& reply);

  /// Ends the leases, and does not wait until the servers have. `path` and the bytes that were read
  /// are reported to each primary, and one server counts the get. An empty path: nothing was read.
  void release(const LeasedBox& held, std::string_view path = {});
  /// Does so for many boxes, in few messages.
  void release_all(std::span<const LeasedBox> held, std::string_view path);

 private:
  /// An object's primary and its number there, and the server that named it.
  using NamedBy = std::map<std::pair<int, std::uint64_t>, int>;
  /// What one server has found.
  struct Answer {
    int server = 0;
    FoundObjects found;
    std::size_t left = 0;  ///< Objects that did not fit into its reply.
  };
  /// What the replies of several servers contain besides objects.
  struct FindOutcome {
    NamedBy named_by;
    std::string why;  ///< Why there is nothing yet.
    bool stale = false;
    bool gone = false;       ///< Whether an object that was named is not there any more.
    std::uint64_t step = 0;  ///< As FoundObjects::step.
  };
  /// The objects of one version; or the version that was named, and discarded meanwhile.
  struct GatheredVersion {
    std::optional<LeasedBox> held;
    std::optional<std::int64_t> vanished;
  };

  static std::vector<std::pair<int, protocol::Release>> releases_of(const LeasedBox& held,
                                                                    std::string_view path);
  Result<SearchOutcome> hold_objects(const GetRequest& request, Answer answer, std::int64_t end_ns);
  Result<std::optional<LeasedBox>> gather(const GetRequest& request,
                                          const std::vector<int>& index_servers, bool watch,
                                          std::int64_t end_ns, FindOutcome& outcome);
  Result<GatheredVersion> gather_version(const GetRequest& request,
                                         const std::vector<int>& index_servers, bool watch,
                                         std::int64_t end_ns, FindOutcome& outcome);
  LeasedBox merge(const std::vector<Answer>& answers, LeasedBox held, FindOutcome& outcome) const;
  Status find_on(const std::vector<int>& servers, const GetRequest& request, bool watch,
                 std::int64_t end_ns, std::vector<Answer>& answers, FindOutcome& outcome);
  Status lease_others(const GetRequest& request, bool watch, FindOutcome& outcome, LeasedBox& held);
  Status take_leased(int primary, std::span<StoredObject* const> asked,
                     const protocol::LeaseGranted& granted, const std::string& variable,
                     FindOutcome& outcome, LeasedBox& held);
  Status read_found(const GetRequest& request, std::span<Answer> answers, std::int64_t end_ns);

  RequestSender& requester_;
};

}  // namespace tranship::staging
