#include "fabric/messages/protocol.hpp"

namespace tranship::fabric {
namespace {

void put(MessageWriter& out, const Greeting& value) {
  out.add(value.magic).add(value.protocol).text(value.version);
}

bool get(MessageReader& in, Greeting& value) {
  value.magic = in.get<std::uint64_t>();
  value.protocol = in.get<std::uint32_t>();
  value.version = plain_text(in.text());
  return in.ok() && value.magic == hello_magic;
}

void put(MessageWriter& out, const Identity& value) {
  out.add(value.pid).add(value.start_ticks);
  out.text(value.boot).text(value.pid_namespace).text(value.host);
}

void get(MessageReader& in, Identity& value) {
  value.pid = in.get<std::int64_t>();
  value.start_ticks = in.get<std::uint64_t>();
  value.boot = in.text();
  value.pid_namespace = in.text();
  value.host = plain_text(in.text());
}

}  // namespace

void MessageWriter::append(const void* data, std::size_t length) {
  const auto* bytes = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), bytes, bytes + length);
}

std::vector<std::byte> encode(const Hello& hello) {
  MessageWriter out;
  put(out, hello.greeting);
  put(out, hello.identity);
  out.add(hello.mode);
  return out.bytes();
}

bool decode(std::span<const std::byte> bytes, Greeting& greeting) {
  MessageReader in(bytes);
  return get(in, greeting);
}

bool decode(std::span<const std::byte> bytes, Hello& hello) {
  MessageReader in(bytes);
  if (!get(in, hello.greeting)) return false;
  get(in, hello.identity);
  hello.mode = in.get<LinkMode>();
  return in.ok();
}

std::vector<std::byte> encode(const Welcome& welcome) {
  MessageWriter out;
  put(out, welcome.greeting);
  put(out, welcome.error);
  put(out, welcome.identity);
  out.add(welcome.mode);
  out.add(welcome.geometry.slots).add(welcome.geometry.slot_bytes);
  out.add(welcome.geometry.inside_bytes).add(welcome.geometry.straight_bytes).add(welcome.seat);
  out.add(welcome.probe_address).add(welcome.probe_value);
  out.text(welcome.carrier).add(std::span<const std::byte>(welcome.carrier_address));
  return out.bytes();
}

bool decode(std::span<const std::byte> bytes, Welcome& welcome) {
  MessageReader in(bytes);
  if (!get(in, welcome.greeting)) return false;
  get(in, welcome.error);
  get(in, welcome.identity);
  welcome.mode = in.get<LinkMode>();
  welcome.geometry.slots = in.get<std::int32_t>();
  welcome.geometry.slot_bytes = in.get<std::int64_t>();
  welcome.geometry.inside_bytes = in.get<std::int64_t>();
  welcome.geometry.straight_bytes = in.get<std::int64_t>();
  welcome.seat = in.get<std::int32_t>();
  welcome.probe_address = in.get<std::uint64_t>();
  welcome.probe_value = in.get<std::uint64_t>();
  welcome.carrier = plain_text(in.text());
  const auto address = in.data();
  welcome.carrier_address.assign(address.begin(), address.end());
  if (welcome.carrier.size() > carrier_kind_bytes_max) return false;
  if (address.size() > carrier_address_bytes_max) return false;
  return in.ok() && welcome.geometry.valid();
}

std::vector<std::byte> encode(const Ready& ready) {
  MessageWriter out;
  out.add(ready.mode).add(ready.carrier);
  return out.bytes();
}

bool decode(std::span<const std::byte> bytes, Ready& ready) {
  MessageReader in(bytes);
  ready.mode = in.get<LinkMode>();
  ready.carrier = in.get<std::uint32_t>();
  return in.ok() && ready.carrier <= 1;
}

std::vector<std::byte> encode(const Accepted& accepted) {
  MessageWriter out;
  put(out, accepted.error);
  return out.bytes();
}

bool decode(std::span<const std::byte> bytes, Accepted& accepted) {
  MessageReader in(bytes);
  get(in, accepted.error);
  return in.ok();
}

std::vector<std::byte> encode(const LookupReply& reply) {
  MessageWriter out;
  put(out, reply.error);
  out.add(reply.id).add(reply.index).add(reply.bytes).add(reply.writable).add(reply.plain);
  out.text(reply.description).add(reply.address);
  out.add(reply.memory_bytes).add(reply.memory_offset).text(reply.ipc_handle);
  out.add(std::span<const std::byte>(reply.carrier_key)).add(reply.carrier_address);
  out.text(reply.memory_name.space).add(reply.memory_name.offset);
  out.add(reply.takes_notices);
  return out.bytes();
}

bool decode(std::span<const std::byte> bytes, LookupReply& reply) {
  MessageReader in(bytes);
  get(in, reply.error);
  reply.id = in.get<std::uint64_t>();
  reply.index = in.get<std::int32_t>();
  reply.bytes = in.get<std::int64_t>();
  reply.writable = in.get<std::uint32_t>();
  reply.plain = in.get<std::uint32_t>();
  reply.description = in.text();
  reply.address = in.get<std::uint64_t>();
  reply.memory_bytes = in.get<std::int64_t>();
  reply.memory_offset = in.get<std::int64_t>();
  reply.ipc_handle = in.text();
  const auto key = in.data();
  reply.carrier_key.assign(key.begin(), key.end());
  reply.carrier_address = in.get<std::uint64_t>();
  reply.memory_name.space = in.text();
  reply.memory_name.offset = in.get<std::int64_t>();
  reply.takes_notices = in.get<std::uint32_t>();
  if (key.size() > carrier_key_bytes_max) return false;
  return in.ok() && reply.index >= 0 && reply.index < exports_max && reply.bytes >= 0;
}

std::vector<std::byte> encode_text(const std::string& text) {
  MessageWriter out;
  out.text(text);
  return out.bytes();
}

}  // namespace tranship::fabric
