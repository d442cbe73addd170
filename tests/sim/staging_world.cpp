#include "sim/staging_world.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace tranship::test {
namespace {

constexpr std::int64_t step_ns = 1000;

/// Returns the number under which a server is connected to the first one.
int joined_as(int rank) { return 1000 + rank; }

Error dead() { return {ErrorCode::closed, "this client is dead"}; }
Error lost(int server) {
  return {ErrorCode::peer_lost, "server " + std::to_string(server) + " has died"};
}
Error cut() { return {ErrorCode::peer_lost, "the connection was lost"}; }

}  // namespace

std::int64_t SimulatedServers::now_ns() const { return world_.now_ns(); }
int SimulatedServers::count() const { return world_.servers(); }

std::uint64_t SimulatedServers::notices() const {
  return world_.clients_[static_cast<std::size_t>(client_)]->notices;
}

void SimulatedServers::wait(std::uint64_t seen, std::int64_t until_ns) {
  auto& client = *world_.clients_[static_cast<std::size_t>(client_)];
  client.waits = true;
  client.seen = seen;
  client.until_ns = until_ns;
  (void)world_.step(client_);
  client.waits = false;
}

Status SimulatedServers::hello(int server) {
  auto& client = *world_.clients_[static_cast<std::size_t>(client_)];
  if (client.greeted.contains(server)) return {};
  const staging::protocol::Hello request{staging::staging_version, "client", {}};
  staging::ReplyBuffer reply;
  const auto answer = ask_now(server, staging::message_of(request), reply);
  if (answer) client.greeted.insert(server);
  return answer ? Status{} : Status(answer.error());
}

Result<std::span<const std::byte>> SimulatedServers::ask(int server,
                                                         const fabric::MessageWriter& question,
                                                         staging::ReplyBuffer& reply) {
  if (Status status = hello(server); !status) return status.error();
  return ask_now(server, question, reply);
}

Result<std::span<const std::byte>> SimulatedServers::ask_now(int server,
                                                             const fabric::MessageWriter& question,
                                                             staging::ReplyBuffer& reply) {
  if (!world_.step(client_)) return dead();  // the request travels
  auto& there = world_.servers_[static_cast<std::size_t>(server)];
  if (!there.alive) return lost(server);
  auto& client = *world_.clients_[static_cast<std::size_t>(client_)];
  if (world_.is_cut(client, server)) return cut();
  client.connected.insert(server);
  const bool settles = staging::kind_of(question.bytes()) == staging::RequestKind::settle_step;
  if (settles && world_.random().chance(world_.options_.settler_death)) {
    world_.kill(client_);
    return dead();
  }
  if (world_.random().chance(world_.options_.late)) {
    there.late[client_].push_back({question.bytes()});
    if (!world_.step(client_)) return dead();
    return Error{ErrorCode::timeout, "server " + std::to_string(server) + " did not answer"};
  }
  world_.answer_late(there, client_);
  if (!reply.bytes) reply.bytes = std::make_unique<std::byte[]>(4096);
  auto length = there.service->answer(static_cast<staging::ClientConnection>(client_),
                                      question.bytes(), {reply.bytes.get(), 4096});
  if (!world_.step(client_)) return dead();  // the reply travels
  if (!there.alive) return lost(server);
  if (world_.is_cut(client, server)) return cut();
  if (!length) return length.error();
  return std::span<const std::byte>(reply.bytes.get(), *length);
}

/// Leaves a request that gets no reply; the client keeps the turn.
void SimulatedServers::tell(int server, const fabric::MessageWriter& question) {
  const auto& client = *world_.clients_[static_cast<std::size_t>(client_)];
  auto& there = world_.servers_[static_cast<std::size_t>(server)];
  if (!client.alive || world_.is_cut(client, server)) return;
  if (!there.alive || !client.greeted.contains(server)) return;
  there.late[client_].push_back({question.bytes()});
}

/// A request that was sent, and whose reply is awaited later.
class SimulatedServers::Underway : public Question {
 public:
  Underway(SimulatedServers& servers, int server, const fabric::MessageWriter& question,
           staging::ReplyBuffer& reply)
      : world_(servers.world_), client_(servers.client_), server_(server), reply_(reply) {
    sent_ = servers.hello(server);
    if (sent_ && !there().alive) sent_ = lost(server);
    if (sent_ && world_.is_cut(here(), server)) sent_ = cut();
    if (!sent_) return;
    here().connected.insert(server);
    there().late[client_].push_back({question.bytes(), unread_});
  }

  Result<std::span<const std::byte>> reply() override {
    if (!sent_) return sent_.error();
    if (!world_.step(client_)) return dead();  // the request travels
    const bool late = world_.random().chance(world_.options_.late);
    if (!late && there().alive && !world_.is_cut(here(), server_))
      world_.answer_late(there(), client_);
    if (!world_.step(client_)) return dead();  // the reply travels
    if (!there().alive) return lost(server_);
    if (world_.is_cut(here(), server_)) return cut();
    if (late) {
      return Error{ErrorCode::timeout, "server " + std::to_string(server_) + " did not answer"};
    }
    CHECK(unread_->there, "a reply to a request that has not arrived");
    if (!unread_->length) return unread_->length.error();
    if (!reply_.bytes) reply_.bytes = std::make_unique<std::byte[]>(4096);
    std::memcpy(reply_.bytes.get(), unread_->bytes, *unread_->length);
    return std::span<const std::byte>(reply_.bytes.get(), *unread_->length);
  }

 private:
  StagingWorld::Server& there() { return world_.servers_[static_cast<std::size_t>(server_)]; }
  StagingWorld::Client& here() { return *world_.clients_[static_cast<std::size_t>(client_)]; }

  StagingWorld& world_;
  int client_;
  int server_;
  staging::ReplyBuffer& reply_;
  Status sent_;
  std::shared_ptr<StagingWorld::UnreadReply> unread_ =
      std::make_shared<StagingWorld::UnreadReply>();
};

std::unique_ptr<staging::Servers::Question> SimulatedServers::send(
    int server, const fabric::MessageWriter& question, staging::ReplyBuffer& reply) {
  return std::make_unique<Underway>(*this, server, question, reply);
}

StagingWorld::StagingWorld(Options options)
    : options_(options), random_(options.seed), servers_(at(options.servers)) {
  for (int rank = 0; rank < options.servers; ++rank) {
    Server& server = servers_[at(rank)];
    staging::Service::Options service;
    service.store.memory_bytes = options.memory_bytes;
    service.store.segment_bytes = 4096;
    service.store.versions_max = options.versions_max;
    service.store.full = options.full;
    service.store.spill_bytes = options.spill_bytes;
    service.store.server = rank;
    service.store.servers = options.servers;
    service.store.make_segment = [&server](std::int64_t bytes) {
      server.segments.emplace_back(static_cast<std::size_t>(bytes));
      return Status{};
    };
    service.servers = options.servers;
    service.cell_bytes = options.cell_bytes;
    service.contact = "server" + std::to_string(rank);
    service.message_bytes = 4096;
    service.address_of = [this, &server, rank](const Range& range) {
      check_nobody_writes(rank, range, "a message");
      return server.segments[at(range.segment)].data() + range.offset;
    };
    service.move = [&server](const staging::Move& move) { server.moves.push_back(move); };
    service.notify = [this](staging::ClientConnection client) { ++clients_[client]->notices; };
    server.service = std::make_unique<staging::Service>(std::move(service));
  }
  for (int rank = 1; rank < options.servers; ++rank) {
    const staging::protocol::Join join{staging::staging_version, rank, options.servers,
                                       "server" + std::to_string(rank)};
    std::byte reply[64];
    (void)servers_[0].service->answer(static_cast<staging::ClientConnection>(joined_as(rank)),
                                      staging::message_of(join).bytes(), reply);
  }
}

bool StagingWorld::all_alive() const {
  return std::all_of(servers_.begin(), servers_.end(), [](const Server& one) { return one.alive; });
}

std::byte* StagingWorld::memory(int server, const Range& range) {
  Server& there = servers_[at(server)];
  return there.alive ? there.segments[at(range.segment)].data() + range.offset : nullptr;
}

bool StagingWorld::can_run(const Client& client) const {
  if (client.ended) return false;
  return !client.waits || !client.alive || client.notices != client.seen ||
         now_ns_ >= client.until_ns;
}

/// Returns the client that goes on; -1: all have ended. Time passes when all wait.
int StagingWorld::choose() {
  while (true) {
    std::vector<int> ready;
    std::int64_t next_ns = INT64_MAX;
    for (std::size_t k = 0; k < clients_.size(); ++k) {
      if (clients_[k]->ended) continue;
      if (can_run(*clients_[k])) ready.push_back(static_cast<int>(k));
      next_ns = std::min(next_ns, clients_[k]->waits ? clients_[k]->until_ns : now_ns_);
    }
    if (!ready.empty()) return ready[at(static_cast<int>(random_.below(std::ssize(ready))))];
    if (next_ns == INT64_MAX) return -1;
    if (move_something()) continue;
    answer_late();
    now_ns_ = next_ns;
    deliver_partings(true);  // servers notice deaths long before any client's patience ends
  }
}

void StagingWorld::answer_late(Server& server, int client) {
  std::byte nobodys[4096];
  const auto from = static_cast<staging::ClientConnection>(client);
  for (const auto& [bytes, reply] : std::exchange(server.late[client], {})) {
    const std::span room = reply ? std::span(reply->bytes) : std::span(nobodys);
    auto length = server.service->answer(from, bytes, room);
    if (!reply) continue;
    reply->there = true;
    reply->length = std::move(length);
  }
}

void StagingWorld::answer_late() {
  for (Server& server : servers_) {
    for (std::size_t k = 0; k < clients_.size() && server.alive; ++k) {
      answer_late(server, static_cast<int>(k));
    }
  }
}

void StagingWorld::part(int client, Leaving how) {
  const Client& one = *clients_[at(client)];
  for (const int server : one.connected) {
    const bool cleanly = how == Leaving::ended && !one.cut.contains(server);
    partings_.push_back({server, client, how == Leaving::ended && !cleanly ? Leaving::died : how});
  }
}

void StagingWorld::begin_writing(int client, int server, const Range& range) {
  if (!clients_[at(client)]->alive) return;  // it writes nothing
  check_nobody_writes(server, range, "another client");
  clients_[at(client)]->writes_at = server;
  clients_[at(client)]->writes = range;
}

void StagingWorld::end_writing(int client) { clients_[at(client)]->writes_at = -1; }

void StagingWorld::check_nobody_writes(int server, const Range& range, const char* what) {
  for (std::size_t k = 0; k < clients_.size(); ++k) {
    const Client& client = *clients_[k];
    const Range& taken = client.writes;
    if (!client.alive || client.writes_at != server || taken.segment != range.segment) continue;
    if (range.offset < taken.offset + taken.bytes && taken.offset < range.offset + range.bytes) {
      offences_.push_back("memory that client " + std::to_string(k) + " still writes went to " +
                          what);
    }
  }
}

void StagingWorld::deliver_partings(bool all) {
  for (std::size_t k = 0; k < partings_.size();) {
    if (!all && !random_.chance(0.1)) {
      ++k;
      continue;
    }
    const Parting parting = partings_[k];
    // The events of one connection arrive in order.
    const bool first =
        std::none_of(partings_.begin(), partings_.begin() + static_cast<std::ptrdiff_t>(k),
                     [&](const Parting& one) {
                       return one.server == parting.server && one.client == parting.client;
                     });
    if (!first) {
      ++k;
      continue;
    }
    partings_.erase(partings_.begin() + static_cast<std::ptrdiff_t>(k));
    Server& server = servers_[at(parting.server)];
    if (server.alive) {
      answer_late(server, parting.client);
      const auto client = static_cast<staging::ClientConnection>(parting.client);
      if (parting.how == Leaving::lost) {
        server.service->lost(client);
      } else {
        server.service->gone(client, parting.how == Leaving::ended);
      }
    }
  }
}

/// Carries out a move of some server; returns false if there is none.
bool StagingWorld::move_something() {
  std::vector<Server*> busy;
  for (Server& server : servers_) {
    if (server.alive && !server.moves.empty()) busy.push_back(&server);
  }
  if (busy.empty()) return false;
  carry_out(*busy[at(static_cast<int>(random_.below(std::ssize(busy))))]);
  return true;
}

/// Carries out the first of a server's moves, which may fail. A move that fails leaves a part
/// behind.
void StagingWorld::carry_out(Server& server) {
  const staging::Move move = server.moves.front();
  server.moves.pop_front();
  const auto begin = static_cast<std::size_t>(move.disk.offset);
  if (move.kind == staging::Move::Kind::drop) {
    const auto bytes = static_cast<std::size_t>(move.disk.bytes);
    std::memset(server.disk.data() + begin, 0x5a, std::min(bytes, server.disk.size() - begin));
    return;
  }
  const auto bytes = static_cast<std::size_t>(move.memory.bytes);
  std::byte* memory = server.segments[at(move.memory.segment)].data() + move.memory.offset;
  const bool out = move.kind == staging::Move::Kind::out;
  const auto rank = static_cast<int>(&server - servers_.data());
  check_nobody_writes(rank, move.memory, "the disk");
  const bool fails = random_.chance(out ? options_.write_failure : options_.read_failure);
  const std::size_t moved = fails ? bytes / 2 : bytes;
  if (out) {
    server.disk.resize(std::max(server.disk.size(), begin + bytes));
    std::memcpy(server.disk.data() + begin, memory, moved);
  } else {
    std::memcpy(memory, server.disk.data() + begin, moved);
    came_back_ += fails ? 0 : 1;
  }
  const Error failure{ErrorCode::io, "the simulated disk failed"};
  server.service->ended(move, fails ? Status(failure) : Status{});
}

/// Lets clients and servers die, connections end and moves end at this step, by their
/// probabilities.
void StagingWorld::fate() {
  if (random_.chance(options_.client_death)) {
    kill(static_cast<int>(random_.below(std::ssize(clients_))));
  }
  if (random_.chance(options_.link_loss)) {
    const auto k = static_cast<int>(random_.below(std::ssize(clients_)));
    Client& client = *clients_[at(k)];
    if (client.alive && !client.ended && !client.cut_off && k != spared_) {
      client.cut_off = true;
      ++client.notices;
      any_client_died_ = true;
      part(k, Leaving::lost);
    }
  }
  if (random_.chance(options_.one_link_loss)) lose_one_link();
  if (random_.chance(options_.server_death)) {
    kill_server(static_cast<int>(random_.below(std::ssize(servers_))));
  }
  if (random_.chance(0.2)) (void)move_something();
  if (random_.chance(0.2)) answer_late();
  deliver_partings(false);
}

void StagingWorld::kill(int client) {
  Client& one = *clients_[at(client)];
  if (!one.alive || one.ended || client == spared_) return;
  one.alive = false;
  any_client_died_ = true;
  part(client, Leaving::died);
}

void StagingWorld::lose_one_link() {
  const auto k = static_cast<int>(random_.below(std::ssize(clients_)));
  const auto server = static_cast<int>(random_.below(std::ssize(servers_)));
  Client& client = *clients_[at(k)];
  if (!client.alive || client.ended || is_cut(client, server) || k == spared_) return;
  client.cut.insert(server);
  ++client.notices;
  any_client_died_ = true;
  if (client.connected.contains(server)) partings_.push_back({server, k, Leaving::lost});
}

/// The first server learns later that another one is dead.
void StagingWorld::kill_server(int server) {
  if (server > 0 && servers_[at(server)].alive) {
    partings_.push_back({0, joined_as(server), Leaving::died});
  }
  servers_[at(server)].alive = false;
  for (auto& client : clients_) ++client->notices;
}

void StagingWorld::calm() {
  options_.client_death = options_.server_death = options_.settler_death = options_.late = 0;
  options_.link_loss = options_.one_link_loss = 0;
}

bool StagingWorld::step(int client) {
  if (!clients_[at(client)]->alive) return false;
  pass_on(client);
  return clients_[at(client)]->alive;
}

void StagingWorld::pass_on(int from) {
  now_ns_ += step_ns;
  if (++steps_ > steps_max_) {
    hangs_ = true;
    for (auto& client : clients_) client->alive = false;
  }
  fate();
  const int next = choose();
  if (next == from) return;
  if (next < 0) {
    ended_.release();
    return;
  }
  clients_[at(next)]->turn.release();
  if (!clients_[at(from)]->ended) clients_[at(from)]->turn.acquire();
}

void StagingWorld::close(int client) {
  const bool cut_off = clients_[at(client)]->cut_off;
  if (clients_[at(client)]->alive) part(client, cut_off ? Leaving::died : Leaving::ended);
  clients_[at(client)]->alive = false;
}

bool StagingWorld::run(std::vector<Script> scripts, std::int64_t steps_max) {
  steps_max_ = steps_max;
  for (std::size_t k = 0; k < scripts.size(); ++k) clients_.push_back(std::make_unique<Client>());
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < scripts.size(); ++k) {
    threads.emplace_back([this, k, &scripts] {
      Client& client = *clients_[k];
      client.turn.acquire();
      SimulatedServers servers(*this, static_cast<int>(k));
      scripts[k](*this, static_cast<int>(k), servers);
      client.ended = true;
      pass_on(static_cast<int>(k));
    });
  }
  clients_[at(choose())]->turn.release();
  ended_.acquire();
  for (std::thread& thread : threads) thread.join();
  deliver_partings(true);
  while (move_something()) {
  }
  return !hangs_;
}

}  // namespace tranship::test
