// A staging service on virtual time: servers and clients run the real protocol, one step at a time,
// in an order that a seed decides; any of them may die between two steps.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "staging/client/catalog.hpp"
#include "staging/server/service.hpp"

namespace tranship::test {

class StagingWorld;

/// A client's connections to the servers of a world.
class SimulatedServers : public staging::Servers {
 public:
  SimulatedServers(StagingWorld& world, int client) : world_(world), client_(client) {}
  std::int64_t now_ns() const override;
  int count() const override;
  std::int64_t message_bytes() const override { return 4096; }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& question,
                                         staging::ReplyBuffer& reply) override;
  /// The request arrives some steps later, and requests to other servers before or after it.
  std::unique_ptr<Question> send(int server, const fabric::MessageWriter& question,
                                 staging::ReplyBuffer& reply) override;
  void tell(int server, const fabric::MessageWriter& question) override;
  std::uint64_t notices() const override;
  void wait(std::uint64_t seen, std::int64_t until_ns) override;

 private:
  class Underway;
  Result<std::span<const std::byte>> ask_now(int server, const fabric::MessageWriter& question,
                                             staging::ReplyBuffer& reply);
  Status hello(int server);
  StagingWorld& world_;
  int client_;
};

/// A simulated service. Clients are threads of which one at a time runs, the one that has the turn.
/// Each request, wait and step of a copy passes the turn on.
class StagingWorld {
 public:
  struct Options {
    std::uint64_t seed = 0;
    int servers = 1;
    std::int64_t memory_bytes = 1 << 20;
    int versions_max = 0;
    std::int64_t cell_bytes = staging::Cells::bytes_least;
    staging::Full full = staging::Full::block;
    std::int64_t spill_bytes = staging::spill_bytes_unlimited;
    double client_death = 0;   ///< probability at each step
    double settler_death = 0;  ///< probability at each message that tells of the end of a step
    double server_death = 0;
    double link_loss = 0;      ///< probability that a client loses its connections and lives on
    double one_link_loss = 0;  ///< probability that it loses the connection to one server only
    double write_failure = 0;  ///< probability for each move to disk
    double read_failure = 0;
    double late = 0;  ///< probability that a request is late: its client waits no more
  };
  using Script = std::function<void(StagingWorld&, int client, SimulatedServers&)>;

  explicit StagingWorld(Options options);

  /// Runs one script for each client. Returns false if they did not end within `steps_max` steps,
  /// because something hangs.
  bool run(std::vector<Script> scripts, std::int64_t steps_max);

  // The following members serve scripts.
  /// Passes the turn on. Returns false if this client has died meanwhile.
  bool step(int client);
  /// Returns the memory of an object; null if its server has died.
  std::byte* memory(int server, const Range& range);
  /// Records that the client writes to a range, whatever becomes of its connections, until
  /// end_writing() or its death. Giving the range to anybody else meanwhile is an offence.
  void begin_writing(int client, int server, const Range& range);
  void end_writing(int client);
  const std::vector<std::string>& offences() const { return offences_; }
  /// Returns whether the client's connections were lost, or one of them.
  bool cut_off(int client) const {
    return clients_[at(client)]->cut_off || !clients_[at(client)]->cut.empty();
  }
  /// From now on nothing more dies, is lost or late.
  void calm();
  /// The client neither dies nor loses connections. Called before run().
  void spare(int client) { spared_ = client; }
  /// Records that the client has ended without an error.
  void close(int client);
  /// Carries out all late requests.
  void answer_late();
  Random& random() { return random_; }
  std::int64_t now_ns() const { return now_ns_; }
  std::int64_t steps() const { return steps_; }
  bool alive(int server) const { return servers_[at(server)].alive; }
  bool all_alive() const;
  bool any_client_died() const { return any_client_died_; }
  std::int64_t came_back() const { return came_back_; }
  const staging::Service& service(int server) const { return *servers_[at(server)].service; }
  int servers() const { return static_cast<int>(servers_.size()); }

 private:
  friend class SimulatedServers;
  /// A reply that its client has not read.
  struct UnreadReply {
    bool there = false;
    Result<std::size_t> length = std::size_t{0};
    std::byte bytes[4096];
  };
  struct LateRequest {
    std::vector<std::byte> bytes;
    std::shared_ptr<UnreadReply> reply{};  ///< null: no client waits for it
  };
  struct Server {
    std::unique_ptr<staging::Service> service;
    std::vector<std::vector<std::byte>> segments;
    std::vector<std::byte> disk;
    std::deque<staging::Move> moves;  ///< moves that have not been carried out
    /// Requests by client, in order, that have been sent and have not arrived.
    std::map<int, std::deque<LateRequest>> late;
    bool alive = true;
  };
  struct Client {
    std::binary_semaphore turn{0};
    bool alive = true;
    bool ended = false;
    bool cut_off = false;
    std::set<int> cut;   ///< servers to which the connection was lost, if not all
    int writes_at = -1;  ///< server to whose memory the client writes; -1: none
    Range writes;
    std::set<int> greeted;    ///< servers that have had its hello
    std::set<int> connected;  ///< servers that notice when the client leaves
    std::uint64_t notices = 0;
    bool waits = false;
    std::uint64_t seen = 0;
    std::int64_t until_ns = 0;
  };
  enum class Leaving { lost, died, ended };
  struct Parting {
    int server = 0;
    int client = 0;
    Leaving how = Leaving::died;
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  bool can_run(const Client& client) const;
  int choose();
  bool is_cut(const Client& client, int server) const {
    return client.cut_off || client.cut.contains(server);
  }
  void fate();
  void kill(int client);
  void lose_one_link();
  void kill_server(int server);
  void answer_late(Server& server, int client);
  void part(int client, Leaving how);
  void check_nobody_writes(int server, const Range& range, const char* what);
  void deliver_partings(bool all);
  bool move_something();
  void carry_out(Server& server);
  void pass_on(int from);

  Options options_;
  Random random_;
  std::int64_t now_ns_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t steps_max_ = 0;
  int spared_ = -1;
  bool hangs_ = false;
  bool any_client_died_ = false;
  std::int64_t came_back_ = 0;  ///< number of objects that came back from disk
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Parting> partings_;  ///< departures that servers have not noticed yet
  std::vector<std::string> offences_;
  std::binary_semaphore ended_{0};
};

}  // namespace tranship::test
