// The client of the staging service: puts and gets of arrays.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/gate.hpp"
#include "engine/engine.hpp"
#include "engine/processes.hpp"
#include "staging/client/box_arrays.hpp"
#include "staging/client/catalog.hpp"
#include "staging/client/checked_copy.hpp"
#include "staging/client/links.hpp"
#include "staging/client/object_view.hpp"
#include "staging/client/offered_arrays.hpp"
#include "staging/client/offers.hpp"
#include "staging/client/page_mapper.hpp"

namespace tranship::staging {

/// How an array is put.
struct PutOptions {
  std::chrono::milliseconds timeout{};
  std::span<const Event> after{};  ///< The array is read when these have ended.
  /// Whether a get that takes the object whole fails unless it gets the same bytes.
  bool checksum = false;
  StepId step = 0;  ///< The step that it belongs to, which this client has begun; 0: none.
};

/// An array, and the box of a variable as which it is put: `lower` has as many indices as it has
/// dimensions.
struct PlacedArray {
  std::string variable;
  Array array;
  std::vector<std::int64_t> lower;
};

/// A box, and the array that it is copied into, whose extents are the box's.
struct BoxTarget {
  GetRequest request;
  Array target;
};

/// The numbers of a box, reduced.
struct ReducedBox {
  std::int64_t version = 0;
  NumberClass numbers = NumberClass::reals;
  Reduced result{};
};

/// Any thread may call any member; calls of several threads run at the same time. After close(),
/// and in a fork, calls fail with `closed`; close() ends running calls with it.
class Client {
 public:
  /// Connects to the servers of a group by the contact of the first one. `engine` must outlive the
  /// client. `patience.interrupted` ends later waits and copies, too.
  /// @error as Links::open()
  static Result<std::unique_ptr<Client>> open(Engine& engine, const std::string& contact,
                                              const std::string& name, const Patience& patience);
  ~Client();

  /// Puts `array` as the box whose lower corner is `lower` (as many indices as it has dimensions).
  /// An array without elements says that this client has nothing there.
  /// When it returns, the object is visible to all clients, whole. Waits while the server is full.
  /// Finds room while the events in `after` go on. Within a step, the version is its number, and
  /// the object becomes visible with the step.
  /// @error invalid_argument for arrays of several fields, or that do not fit the variable;
  ///        timeout; peer_lost; the server's error; the first of the events' errors
  Status put(const std::string& variable, std::int64_t version, const Array& array,
             const std::vector<std::int64_t>& lower, const PutOptions& options);

  /// Puts arrays as boxes of variables, as many calls of put() would, in as many round trips for
  /// all of them as for one. After an error, some may have been put.
  /// @error as put(); nothing was put if an array does not fit its box
  Status put_all(std::int64_t version, std::span<const PlacedArray> arrays,
                 const PutOptions& options);
  /// Gets boxes of exact versions that are there, in as many round trips for all of them as for
  /// one. Returns the numbers of those that have to be got one by one, in their order: they are not
  /// complete, lie on disk, are offered by other clients, or are indexed by several servers.
  /// @error as get()
  Result<std::vector<std::size_t>> get_all(std::span<const BoxTarget> gets,
                                           std::chrono::milliseconds timeout);
  /// Reduces the numbers of a box at the servers, which send the result alone. Waits as get() does.
  /// @error as get(); invalid_argument if the elements are no numbers, or cannot be reduced so;
  ///        unsupported if a server's memory is a GPU's
  Result<ReducedBox> reduce(const GetRequest& request, const Reduction& reduction,
                            std::chrono::milliseconds timeout);

  /// Waits until the box is complete, and copies it into `target`, whose extents are the box's.
  /// Returns its version.
  /// @error timeout, which says what was missing; closed or peer_lost if the box can never become
  ///        complete
  Result<std::int64_t> get(const GetRequest& request, const Array& target,
                           std::chrono::milliseconds timeout);

  /// Waits as get() does, and returns a view of the box in the server's memory, if the whole box
  /// lies in one object there, on this machine, and not on a GPU. The view may outlive the client.
  /// A checksum of an object that is viewed whole is compared now.
  /// @error as get()
  Result<std::variant<ObjectView, NoView>> view(const GetRequest& request,
                                                std::chrono::milliseconds timeout);

  /// Makes `array` an object as put() does, but leaves it where it is: gets copy it from this
  /// process, whose engine must accept connections. It must not change until the offer has ended:
  /// its version was discarded, or it was withdrawn, and nobody reads it any more. A checksum is of
  /// the elements that it has now.
  /// @error as put(); invalid_argument if the engine accepts no connections, or for an array
  ///        without elements
  Result<OfferId> offer(const std::string& variable, std::int64_t version, const Array& array,
                        const std::vector<std::int64_t>& lower, const PutOptions& options);
  /// Waits until an offer has ended, which is withdrawn before if `withdraw` says so: no further
  /// get finds it. Afterwards no process reads the array.
  /// @error timeout, which says who reads it: the array must not change yet
  Status end_offer(OfferId offer, bool withdraw, std::chrono::milliseconds timeout);
  /// Returns whether an offer has ended.
  Result<bool> offer_has_ended(OfferId offer);

  /// As put(), get() and describe(), but return false or nothing where those would wait for what
  /// other clients do, or for the events: nothing has changed then. Try again when notices() counts
  /// more than before, or after some 0.25 s.
  Result<bool> put_at_once(const std::string& variable, std::int64_t version, const Array& array,
                           const std::vector<std::int64_t>& lower, const PutOptions& options);
  Result<std::optional<std::int64_t>> get_at_once(const GetRequest& request, const Array& target,
                                                  std::chrono::milliseconds timeout);
  Result<std::optional<std::variant<ObjectView, NoView>>> view_at_once(
      const GetRequest& request, std::chrono::milliseconds timeout);
  Result<std::optional<VariableInfo>> describe_at_once(const std::string& variable,
                                                       std::chrono::milliseconds timeout,
                                                       bool bounds);
  /// Returns how many notices of changes have come.
  std::uint64_t notices() const { return links_->notices(); }
  /// Waits for more notices than `seen`; returns when the client is closed, too.
  void wait_for_notice(std::uint64_t seen, std::chrono::milliseconds timeout);

  /// Waits as get() does, and copies nothing. `skipped`: As Catalog::wait().
  Result<std::int64_t> wait(const GetRequest& request, std::chrono::milliseconds timeout,
                            std::vector<SkippedVersion>* skipped = nullptr);

  /// As in Catalog.
  Result<VersionExtent> find_version(const VersionQuery& query, std::chrono::milliseconds timeout,
                                     std::vector<SkippedVersion>* skipped = nullptr);
  /// Does as find_version(), but returns nothing where that would wait.
  Result<std::optional<VersionExtent>> find_version_at_once(const VersionQuery& query,
                                                            std::chrono::milliseconds timeout);
  Result<VersionExtent> extent_of(const std::string& variable, std::int64_t version,
                                  std::chrono::milliseconds timeout);
  Result<std::vector<Box>> boxes_of(const std::string& variable, std::int64_t version,
                                    std::chrono::milliseconds timeout);
  Status nothing(const std::string& variable, std::int64_t first, std::int64_t last);
  void let_versions_rise() { catalog_.let_versions_rise(); }

  /// Defines a variable: its elements, its domain, and the number of clients that will put to it
  /// (0: unknown). The variable then does not end before all of them have put and closed.
  /// @error invalid_argument if it does not fit the variable, or other definitions
  Status define(const std::string& variable, const Field& field, const Box& domain, int writers);

  /// As in StepClient.
  Result<StepId> begin_step(std::int64_t number, int writers, std::chrono::milliseconds timeout);
  Status set_step_attribute(StepId step, const Attribute& attribute);
  Status end_step(StepId step, std::chrono::milliseconds timeout);
  Status give_up_step(StepId step, const std::string& why);
  Result<FoundStep> find_step(const StepQuery& query, std::chrono::milliseconds timeout,
                              std::vector<BrokenStep>* broken = nullptr);
  /// Does as find_step(), but returns nothing where that would wait.
  Result<std::optional<FoundStep>> find_step_at_once(const StepQuery& query,
                                                     std::chrono::milliseconds timeout);
  /// Returns the steps that the first server remembers; see StepClient::list().
  Result<std::vector<ListedStep>> list_steps(std::chrono::milliseconds timeout);
  /// Discards a whole step with the versions of all its variables.
  /// @error not_found if it is not there
  Status discard_step(std::int64_t number, std::chrono::milliseconds timeout);
  Status define_queue(const StepQueue& queue);
  Status join_readers(const std::string& group, Sharing sharing, std::int64_t after);
  Status leave_readers(const std::string& group);
  void leave_readers_later(const std::string& group);
  Result<FoundStep> take_step(const std::string& group, std::chrono::milliseconds timeout,
                              std::vector<BrokenStep>* broken = nullptr);
  Status release_step(const std::string& group, StepId step);
  bool is_dropped(StepId step) { return catalog_.steps().is_dropped(step); }
  Status set_attributes(const std::vector<Attribute>& attributes);
  Result<std::vector<Attribute>> attributes_of(const std::string& variable);

  /// Waits until a variable exists, and returns its element type and bounds. Without `bounds` only
  /// one server is asked, and the bounds are those of the first put.
  Result<VariableInfo> describe(const std::string& variable, std::chrono::milliseconds timeout,
                                bool bounds = true);

  Status discard(const std::string& variable, std::int64_t version);
  /// Deletes a variable with all its versions; the next put decides anew what it is. A put at the
  /// same time fails, or is to the new variable.
  /// @error not_found if no server has it
  Status remove(const std::string& variable);
  Result<std::vector<VariableInfo>> list();
  /// Returns the contact of the first server.
  const std::string& contact() const { return links_->contact(); }
  /// Returns what this client has put and got.
  std::map<std::string, VariableTraffic> traffic() const;
  /// Returns the state of each server.
  Result<std::vector<ServerInfo>> status();
  /// Returns how many clients are connected, with this one.
  Result<int> clients(std::chrono::milliseconds timeout);

  /// Ends the calls of other threads: cancels their copies and waits until none of them accesses
  /// the servers' memory. Then announces that no more puts will come, and disconnects. Bounded in
  /// time. Offers are withdrawn before.
  /// @error timeout if a process may still read an array that was offered
  Status close();
  bool closed() const { return gate_.closed(); }

 private:
  /// Conditions that end the waits of this client.
  struct Ending {
    std::function<bool()> interrupted;
    std::atomic<bool> closing{false};

    bool now() const { return closing.load() || (interrupted && interrupted()); }
  };

  Client(Engine& engine, std::unique_ptr<Links> links, std::shared_ptr<Ending> ending)
      : engine_(engine), links_(std::move(links)), catalog_(*links_), ending_(std::move(ending)) {}
  /// Calls a function at the end of its scope.
  struct Ended {
    std::function<void()> call;
    ~Ended() { call(); }
  };

  static Error closed_error();
  bool forked() const { return fork_generation_ != fork_generation(); }
  /// @error closed
  Result<Gate::Pass> enter() const;
  /// Runs a call, which fails with `closed` if this client was closed before or meanwhile.
  template <typename Call>
  auto call(const Call& body) -> decltype(body()) {
    const auto entered = enter();
    if (!entered) return entered.error();
    auto result = body();
    if (!result) return why_ended(result.error());
    return result;
  }
  Error why_ended(const Error& error) const;
  Status put_inside(const std::string& variable, std::int64_t version, const Array& array,
                    const std::vector<std::int64_t>& lower, const PutOptions& options,
                    OfferId* offered = nullptr);
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
    OfferId* offered = nullptr;  ///< Set if the array is offered instead of put.
  };
  /// Puts an object and returns the path of its data.
  Result<std::string> put_object(const Putting& put);
  Result<std::string> put_by_copy(const Putting& put);
  Result<std::string> put_by_copy_once(const Putting& put, bool& stale);
  Result<std::string> copy_into(const Putting& put, const Array& target, Checksum& checksum);
  Status copy_here(std::span<CheckedCopy> copies, std::int64_t bytes, std::int64_t end);
  Result<Checksum> checksum_of(const Array& array);
  Status copy_out(const Array& array, std::byte* buffer);
  Status check_whole(const LeasedBox& held, const Box& box, const Array& target);
  Status await(std::span<const Event> after, std::int64_t end_ns) const;
  Status wait_for(const Event& event, std::int64_t end_ns) const;
  Result<std::variant<ObjectView, NoView>> view_inside(const GetRequest& request,
                                                       std::chrono::milliseconds timeout);
  Result<std::variant<ObjectView, NoView>> view_of(const LeasedBox& held, const Box& box,
                                                   std::int64_t end_ns);
  struct Got {
    std::int64_t version = 0;
    std::string path;
  };
  Result<Got> get_objects(const GetRequest& request, const Array& target, std::int64_t end_ns);
  Status take_data(const LeasedBox& held, const Array& target) const;
  Status take_parts(const LeasedBox& held, const Box& box, const Array& target, std::int64_t end_ns,
                    std::string& path);
  /// The copies that take boxes out of the servers' memory.
  struct Taking {
    /// A box of which checksums are compared after the copies: those of the parts.
    struct Later {
      LeasedBox held;
      Box box;
      Array target;
    };
    std::vector<CopyPair> pairs{};
    std::vector<CheckedCopy> checked{};
    std::vector<std::pair<const LeasedBox*, const StoredObject*>> whole{};  ///< Of `checked`.
    std::vector<Later> later{};
    DenseMappings mappings{};  ///< Of the objects.
    std::int64_t bytes = 0;
    std::string path{};  ///< How they were copied: the result.
  };
  Status add_parts(const LeasedBox& held, const Box& box, const Array& target, std::int64_t end,
                   Taking& taking);
  Status carry_out(Taking& taking, std::int64_t end);
  Result<std::string> copy_pairs(std::span<CopyPair> pairs, std::int64_t bytes, std::int64_t end);
  /// Arrays of put_all(): those with elements, and those without by their empty dimensions.
  struct PlacedArrays {
    std::vector<PutRequest> requests{};
    std::vector<Array> arrays{};
    std::vector<std::pair<PutRequest, std::uint32_t>> empty{};
    std::int64_t bytes = 0;
  };
  Status put_all_inside(std::int64_t version, std::span<const PlacedArray> arrays,
                        const PutOptions& options);
  Result<std::vector<std::string>> put_together(const PlacedArrays& placed, bool checksum,
                                                std::int64_t end);
  Status copy_into_all(std::span<const Array> arrays, std::span<PutBatch::Begun> begun,
                       std::int64_t bytes, bool checksum, std::int64_t end);
  /// What get_all() has found.
  struct FoundBoxes {
    std::vector<LeasedBox> held{};                     ///< Boxes whose objects are leased,
    std::vector<std::size_t> numbers{};                ///< and the numbers of their gets.
    std::vector<std::unique_ptr<std::byte[]>> data{};  ///< Elements that go to a GPU.
    Taking taking{};
  };
  Result<std::vector<std::size_t>> get_all_inside(std::span<const BoxTarget> gets,
                                                  std::int64_t end);
  Result<ReducedBox> reduce_inside(const GetRequest& request, const Reduction& reduction,
                                   std::int64_t end);
  Status take_found(const Array& target, std::size_t number, LeasedBox held, FoundBoxes& found);
  Status copy_found(std::span<const BoxTarget> gets, FoundBoxes& found,
                    std::vector<std::size_t>& left, std::int64_t end);
  static Result<CopyPair> pair_of_data(std::byte* data, const Array& target);
  Result<std::string> path_of(const CopyPair& pair);
  /// Returns the path of a copy; of several copies the first one's.
  std::string path_of(const Event& event) const;
  Status finish(const Event& event, std::int64_t end_ns) const;
  Result<Array> object_array(int server, const Range& range, const Box& box, const Array& like,
                             std::int64_t end, DenseMappings& mappings);
  Result<Array> segment(int server, int number, std::int64_t end);
  void map_ahead(int server, int number);
  Result<std::string> offer_object(const Putting& put);
  Result<OfferId> offer_once(const Putting& put, const OfferedMemory& memory, bool& stale);
  Result<Array> offered_array(const LeasedBox& held, const StoredObject& object, std::int64_t end);
  Status why_uncopied(const LeasedBox& held, const Status& status, std::int64_t end);
  void accept_readers(const std::string& contact);
  Status withdraw_offers();

  Engine& engine_;
  std::unique_ptr<Links> links_;
  Catalog catalog_;
  std::shared_ptr<Ending> ending_;
  const std::uint64_t fork_generation_ = fork_generation();
  mutable Gate gate_;         ///< Running calls.
  mutable Gate copying_;      ///< Those that copy into or out of the servers' memory.
  std::mutex closing_;        ///< Held while closing.
  mutable std::mutex mutex_;  ///< Guards what follows.
  std::map<std::pair<int, int>, Array> segments_;  ///< By server and number.
  std::set<std::pair<int, int>> mapped_ahead_;     ///< Those that pages_ follows, too.
  std::unique_ptr<PageMapper> pages_ = std::make_unique<PageMapper>();
  std::unique_ptr<Offers> offers_ = std::make_unique<Offers>(catalog_);
  std::unique_ptr<OfferedArrays> offered_ = std::make_unique<OfferedArrays>(catalog_);
  VariableTraffic& traffic_of(const std::string& variable);
  std::map<std::string, VariableTraffic> traffic_;  ///< Those beyond a few thousand together.
};

}  // namespace tranship::staging
