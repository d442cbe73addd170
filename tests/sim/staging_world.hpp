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

/// A client's way to the servers of a world.
class SimulatedServers final : public staging::Servers {
 public:
  SimulatedServers(StagingWorld& world, int client) : world_(world), client_(client) {}
  std::int64_t now_ns() const override;
  int count() const override;
  std::int64_t message_bytes() const override { return 4096; }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& question,
                                         staging::ReplyBuffer& reply) override;
  void tell(int server, const fabric::MessageWriter& question) override;
  std::uint64_t notices() const override;
  void wait(std::uint64_t seen, std::int64_t until_ns) override;

 private:
  Result<std::span<const std::byte>> ask_now(int server, const fabric::MessageWriter& question,
                                             staging::ReplyBuffer& reply);
  Status hello(int server);
  StagingWorld& world_;
  int client_;
};

/// Clients are threads of which one at a time runs: whoever has the turn. Each ask, wait and step
/// of a copy passes it on.
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
    double client_death = 0;  ///< at each step
    double server_death = 0;
    double link_loss = 0;      ///< a client's connections are lost, and its process goes on
    double write_failure = 0;  ///< of a move to disk
    double read_failure = 0;
    double late = 0;  ///< a question is answered when nobody waits for it any more
  };
  using Script = std::function<void(StagingWorld&, int client, SimulatedServers&)>;

  explicit StagingWorld(Options options);

  /// Runs one script for each client to its end. Returns false if they did not end within
  /// `steps_max` steps: something hangs.
  bool run(std::vector<Script> scripts, std::int64_t steps_max);

  // for scripts
  /// Lets others go on. Returns false if this client has died meanwhile.
  bool step(int client);
  /// An object's memory; nothing if its server has died.
  std::byte* memory(int server, const Range& range);
  /// The client writes to a range from now on, whatever becomes of its connections, until it says
  /// so, or dies. That anybody else gets the range meanwhile is an offence.
  void begin_writing(int client, int server, const Range& range);
  void end_writing(int client);
  const std::vector<std::string>& offences() const { return offences_; }
  /// Whether the client's connections were lost.
  bool cut_off(int client) const { return clients_[at(client)]->cut_off; }
  /// Says that the client has ended in good order.
  void close(int client);
  /// Servers answer what has been asked of them, whether or not anybody waits for it.
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
  struct Server {
    std::unique_ptr<staging::Service> service;
    std::vector<std::vector<std::byte>> segments;
    std::vector<std::byte> disk;
    std::deque<staging::Move> moves;  ///< that have not been carried out
    /// Of each client, in order: what nobody waits for any more.
    std::map<int, std::deque<std::vector<std::byte>>> late;
    bool alive = true;
  };
  struct Client {
    std::binary_semaphore turn{0};
    bool alive = true;
    bool ended = false;
    bool cut_off = false;
    int writes_at = -1;  ///< the server in whose memory it writes; -1: in none
    Range writes;
    std::set<int> greeted;    ///< servers
    std::set<int> connected;  ///< servers that see it go
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
  void fate();
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
  bool hangs_ = false;
  bool any_client_died_ = false;
  std::int64_t came_back_ = 0;  ///< times that an object came back from disk
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Parting> partings_;  ///< that servers have not noticed yet
  std::vector<std::string> offences_;
  std::binary_semaphore ended_{0};
};

}  // namespace tranship::test
