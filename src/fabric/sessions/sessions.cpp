#include "fabric/sessions/sessions.hpp"

#include <algorithm>

namespace tranship::fabric {

Error engine_closed() { return {ErrorCode::closed, "this engine was closed"}; }

template <typename Visit>
void Sessions::for_each(Visit visit) const {
  for (const auto& [id, session] : requesting_) {
    if (!session->lost()) visit(*session);
  }
  for (const auto& [id, session] : serving_) {
    if (!session->lost()) visit(*session);
  }
}

Wire::Handlers Sessions::handlers() {
  Wire::Handlers handlers;
  handlers.arrived = [this](ConnectionId id) { on_arrived(id); };
  handlers.message = [this](ConnectionId id, const MessageHeader& header,
                            std::span<const std::byte> body,
                            std::span<FileDescriptor> descriptors) {
    if (Session* session = find(id))
      lose_if(*session, session->on_message(header, body, descriptors));
  };
  handlers.place = [this](ConnectionId id, const MessageHeader& header,
                          std::span<const std::byte> body, std::int64_t offset, std::int64_t left) {
    const Session* session = find(id);
    return session == nullptr ? ReceiveBuffer{} : session->place(header, body, offset, left);
  };
  handlers.lost = [this](ConnectionId id, const Error& why) {
    if (Session* session = find(id)) lose(*session, session->lost_by_wire(why));
  };
  return handlers;
}

Session* Sessions::find(ConnectionId connection) const {
  Session* session = nullptr;
  if (const auto one = requesting_.find(connection); one != requesting_.end()) {
    session = one->second.get();
  } else if (const auto other = serving_.find(connection); other != serving_.end()) {
    session = other->second.get();
  }
  return session == nullptr || session->lost() ? nullptr : session;
}

RequesterSession* Sessions::find(PeerId peer) {
  for (const auto& [id, session] : requesting_) {
    if (!session->lost() && session->link() && session->link()->peer == peer) return session.get();
  }
  return nullptr;
}

void Sessions::connect(ConnectionId connection, const Contact& contact, const std::string& text,
                       RequesterSession::Connected connected) {
  const WirePeer peer = parts_.wire->peer(connection);
  auto made = std::make_unique<RequesterSession>(parts_, connection, peer, contact, text,
                                                 std::move(connected));
  const auto& session = requesting_[connection] = std::move(made);
  lose_if(*session, closing_ ? engine_closed() : session->start(peer));
}

void Sessions::on_arrived(ConnectionId connection) {
  constexpr std::size_t refusals_max = 64;
  const auto most = static_cast<std::size_t>(parts_.options.peers_max);
  if (size() >= most + refusals_max || closing_) {
    parts_.wire->close(connection);
    return;
  }
  std::optional<Error> refusal;
  if (size() >= most) {
    refusal = {ErrorCode::out_of_memory,
               "it serves " + std::to_string(most) + " processes, and no more",
               "raise the setting clients_max there"};
  }
  const bool local = parts_.wire->peer(connection).local;
  serving_[connection] = std::make_unique<ExporterSession>(
      parts_, connection, local ? LinkMode::shared : LinkMode::network, now(), std::move(refusal));
}

void Sessions::abandon(ConnectionId connection) {
  const auto found = requesting_.find(connection);
  if (found == requesting_.end() || !found->second->connecting()) return;
  lose(*found->second, {ErrorCode::timeout, "given up"});
}

void Sessions::notify(RequesterId requester, std::span<const std::byte> body) {
  const auto found = serving_.find(requester.value);
  if (found != serving_.end() && !found->second->lost()) found->second->notify(body);
}

bool Sessions::withdraw(std::uint64_t export_id, int index, bool end) {
  bool busy = parts_.fences.in_use(index);
  for (const auto& [id, session] : serving_) {
    if (!session->lost()) busy |= session->withdraw(export_id, index, end);
  }
  return busy;
}

void Sessions::on_process_ended(ConnectionId connection) {
  // A goodbye that the process sent before it exited is read first.
  for (int tries = 0; tries < 1000 && parts_.wire->progress(); ++tries) continue;
  Session* session = find(connection);
  if (session == nullptr) return;
  lose(*session,
       {ErrorCode::peer_lost, session->label() + " ended without closing: its process died"});
}

void Sessions::leave(PeerId peer, std::shared_ptr<std::promise<bool>> left) {
  RequesterSession* session = find(peer);
  if (session == nullptr || session->leaving()) return left->set_value(session != nullptr);
  const bool copying = session->copying();  // read once: other threads begin and end copies
  session->leave(now() + goodbye_max, std::move(left));
  ++leaving_;
  if (copying) return lose(*session, {});
  session->say_goodbye();  // which promises that no copy is under way
}

void Sessions::end_leaving() {
  const auto time = now();
  for (const auto& [id, session] : requesting_) {
    if (session->leaving() && time >= session->leaves_by()) lose(*session, {});
  }
}

void Sessions::tick() {
  const auto time = now();
  for_each([&](Session& session) { lose_if(session, session.tick(time)); });
}

void Sessions::lose_if(Session& session, const Status& status) {
  if (!status) lose(session, status.error());
}

void Sessions::lose(Session& session, Error error) {
  if (session.lost()) return;
  const auto requesting = requesting_.find(session.connection());
  if (requesting != requesting_.end() && requesting->second->leaving()) {
    --leaving_;
    error = {ErrorCode::closed, "the connection to " + session.label() + " was closed"};
  }
  session.end(closing_ ? engine_closed() : error);
  parts_.bell.ring();
}

void Sessions::erase_lost() {
  const auto lost = [](const auto& one) { return one.second->lost(); };
  std::erase_if(requesting_, lost);
  std::erase_if(serving_, lost);
}

void Sessions::begin_closing() {
  closing_ = true;
  for (const auto& [id, session] : requesting_) {
    if (session->link()) session->link()->fail(engine_closed());
  }
  parts_.bell.ring();
}

bool Sessions::copying() const {
  return std::any_of(requesting_.begin(), requesting_.end(),
                     [](const auto& one) { return one.second->copying(); });
}

void Sessions::send_goodbyes(bool late) {
  for_each([&](Session& session) {
    if (session.said_goodbye() || session.copying()) return;
    if (late || parts_.wire->in_order(session.connection())) session.say_goodbye();
  });
}

void Sessions::end_all() {
  for_each([&](Session& session) { lose(session, engine_closed()); });
  erase_lost();
}

}  // namespace tranship::fabric
