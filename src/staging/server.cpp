#include "staging/server.hpp"

#include <thread>

namespace tranship::staging {

Server::Server(Options options) : options_(std::move(options)) {}

Result<std::unique_ptr<Server>> Server::open(Options options) {
  if (options.memory_bytes < (std::int64_t{1} << 20) || options.versions_max < 0) {
    return Error{ErrorCode::invalid_argument,
                 "a server has at least 1 MiB of memory, and keeps 0 (all) or more versions"};
  }
  if (options.servers < 1 || options.rank < 0 || options.rank >= options.servers) {
    return Error{
        ErrorCode::invalid_argument,
        "a group has at least one server, whose ranks are 0 to one less than their number"};
  }
  std::unique_ptr<Server> server(new Server(std::move(options)));
  Server* raw = server.get();
  Engine::Options engine;
  engine.config = raw->options_.config;
  engine.profile = raw->options_.profile;
  engine.accept = true;
  if (raw->options_.rank == 0) engine.contact_file = raw->options_.contact_file;
  engine.answer = [raw](RequesterId from, std::span<const std::byte> question,
                        std::span<std::byte> reply) { return raw->answer(from, question, reply); };
  engine.on_requester_gone = [raw](RequesterId requester, bool cleanly) {
    raw->on_gone(requester, cleanly);
  };
  auto opened = Engine::open(std::move(engine));
  if (!opened) return opened.error();
  raw->engine_ = std::move(*opened);
  auto processes = raw->engine_->processes();
  if (!processes) return processes.error();
  raw->processes_ = *processes;
  raw->contact_ = raw->processes_->contact();
  Service::Options service;
  service.store.memory_bytes = raw->options_.memory_bytes;
  service.store.versions_max = raw->options_.versions_max;
  service.store.full = raw->options_.full;
  service.store.server = raw->options_.rank;
  service.store.make_segment = [raw](std::int64_t bytes) { return raw->make_segment(bytes); };
  service.servers = raw->options_.servers;
  service.contact = raw->contact_;
  service.message_bytes = raw->options_.config.slot_bytes;
  service.address_of = [raw](const Range& range) { return raw->address_of(range); };
  service.notify = [raw](Owner client) { (void)raw->processes_->notify(RequesterId{client}, {}); };
  raw->service_ = std::make_unique<Service>(std::move(service));
  raw->ready_.store(true, std::memory_order_release);
  if (Status status = raw->join(); !status) return status.error();
  return server;
}

/// Tells the first server of the group where this one is.
Status Server::join() {
  if (options_.rank == 0) return {};
  const auto end = std::chrono::steady_clock::now() + options_.join_timeout;
  while (true) {
    const auto first = processes_->connect(options_.first, options_.join_timeout);
    if (first) {
      MessageWriter question;
      question.add(Ask::join)
          .add(staging_version)
          .add(options_.rank)
          .add(options_.servers)
          .text(contact_);
      std::vector<std::byte> reply(message_bytes_least);
      const auto joined = processes_->ask(*first, question.bytes(), reply, options_.join_timeout);
      return joined ? Status{} : Status(joined.error());
    }
    // It may be about to start.
    const bool waits = first.error().code == ErrorCode::not_found;
    if (!waits || std::chrono::steady_clock::now() > end) return first.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Server::~Server() { close(); }

void Server::close(std::chrono::milliseconds drain_max) {
  if (!engine_) return;
  const auto end = std::chrono::steady_clock::now() + drain_max;
  const auto busy = [&] {
    std::lock_guard lock(mutex_);
    if (service_) service_->drain();
    return service_ && service_->busy();
  };
  while (!engine_->closed() && busy() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  engine_->close();
}

std::string Server::contact() const { return contact_; }

std::vector<VariableInfo> Server::list() const {
  std::lock_guard lock(mutex_);
  return service_->list();
}

std::int64_t Server::memory_bytes_used() const {
  std::lock_guard lock(mutex_);
  return service_->memory_bytes_used();
}

int Server::clients() const {
  std::lock_guard lock(mutex_);
  return service_->clients();
}

bool Server::complete() const {
  std::lock_guard lock(mutex_);
  return service_->complete();
}

Status Server::make_segment(std::int64_t bytes) {
  auto memory = engine_->allocate_shared(bytes);
  if (!memory) return memory.error();
  Array array;
  array.view = View::whole(
      Mapping::make({{"byte", bytes}}, {{"f0", "u1", 1}}, Layout::parse("F, byte").value())
          .value());
  array.place.address = (*memory)->data();
  array.owner = *memory;
  array.name = "a segment of a staging server";
  const std::string name = segment_name + std::to_string(segments_.size());
  if (Status status = processes_->export_array(name, array); !status) return status;
  segments_.push_back(std::move(*memory));
  return {};
}

std::byte* Server::address_of(const Range& range) const {
  return segments_[static_cast<std::size_t>(range.segment)]->data() + range.offset;
}

Result<std::size_t> Server::answer(RequesterId from, std::span<const std::byte> question,
                                   std::span<std::byte> reply) {
  if (!await_ready()) return Error{ErrorCode::closed, "the staging server did not start"};
  std::lock_guard lock(mutex_);
  return service_->answer(from.value, question, reply);
}

/// Who connects while the server opens waits for that.
bool Server::await_ready() const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!ready_.load(std::memory_order_acquire)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void Server::on_gone(RequesterId requester, bool cleanly) {
  if (!ready_.load(std::memory_order_acquire)) return;  // nobody has said hello
  std::lock_guard lock(mutex_);
  service_->gone(requester.value, cleanly);
}

}  // namespace tranship::staging
