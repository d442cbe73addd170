#include "staging/messages.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace tranship::staging {
namespace {

constexpr std::uint32_t objects_max = 1U << 20;

void add(MessageWriter& out, const Seen& seen) {
  out.add(seen.home).add(seen.object).add(seen.order).add(seen.checksum);
  tranship::staging::add(out, seen.range);
  tranship::staging::add(out, seen.box);
}

}  // namespace

void add_entry(MessageWriter& out, const std::string& variable, std::int64_t version,
               const ObjectAt& object) {
  out.text(variable).add(version).add(object.home).add(object.object);
}

void add(MessageWriter& out, const Range& range) {
  out.add(range.segment).add(range.offset).add(range.bytes);
}

Range read_range(MessageReader& in) {
  Range range;
  range.segment = in.get<int>();
  range.offset = in.get<std::int64_t>();
  range.bytes = in.get<std::int64_t>();
  return range;
}

bool lies_inside(const Range& range, std::int64_t bytes, std::int64_t segment_bytes) {
  return range.offset >= 0 && bytes >= 0 && bytes <= segment_bytes &&
         range.offset <= segment_bytes - bytes;
}

const char* to_string(Ask ask) {
  switch (ask) {
    case Ask::hello: return "hello";
    case Ask::join: return "join";
    case Ask::define: return "define";
    case Ask::declare: return "declare";
    case Ask::describe: return "describe";
    case Ask::bounds: return "bounds";
    case Ask::put: return "put";
    case Ask::begin: return "begin";
    case Ask::commit: return "commit";
    case Ask::abort: return "abort";
    case Ask::enter: return "enter";
    case Ask::leave: return "leave";
    case Ask::settle: return "settle";
    case Ask::get: return "get";
    case Ask::find: return "find";
    case Ask::lease: return "lease";
    case Ask::more: return "more";
    case Ask::recall: return "recall";
    case Ask::release: return "release";
    case Ask::undo: return "undo";
    case Ask::forget: return "forget";
    case Ask::wait: return "wait";
    case Ask::discard: return "discard";
    case Ask::remove: return "remove";
    case Ask::list: return "list";
    case Ask::status: return "status";
  }
  return "unknown";
}

Ask ask_of(std::span<const std::byte> question) {
  MessageReader in(question);
  const auto ask = in.get<Ask>();
  return in.ok() ? ask : Ask{};
}

void add(MessageWriter& out, const Box& box) {
  out.add(static_cast<std::uint32_t>(box.rank));
  for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
    out.add(box.lower[k]).add(box.upper[k]);
  }
}

Box read_bounds(MessageReader& in, bool& ok) {
  const auto rank = in.get<std::uint32_t>();
  ok = ok && in.ok() && rank <= static_cast<std::uint32_t>(dimensions_max);
  Box box;
  box.upper.fill(1);
  if (!ok) return box;
  box.rank = static_cast<int>(rank);
  for (std::size_t k = 0; k < rank; ++k) {
    box.lower[k] = in.get<std::int64_t>();
    box.upper[k] = in.get<std::int64_t>();
    ok = ok && box.lower[k] < box.upper[k] && box.lower[k] >= -index_most &&
         box.upper[k] <= index_most;
  }
  ok = ok && in.ok();
  return ok ? box : Box{};
}

Box read_box(MessageReader& in, bool& ok) {
  Box box = read_bounds(in, ok);
  std::int64_t points = 1;
  for (int k = 0; ok && k < box.rank; ++k) {
    ok = !__builtin_mul_overflow(points, box.extent(k), &points);
  }
  return ok ? box : Box{};
}

void add(MessageWriter& out, const std::optional<Box>& box) {
  out.add(static_cast<std::uint32_t>(box ? 1 : 0));
  if (box) add(out, *box);
}

std::optional<Box> read_optional_box(MessageReader& in, bool& ok) {
  if (in.get<std::uint32_t>() == 0) return std::nullopt;
  return read_box(in, ok);
}

std::optional<Box> read_optional_bounds(MessageReader& in, bool& ok) {
  if (in.get<std::uint32_t>() == 0) return std::nullopt;
  return read_bounds(in, ok);
}

std::string read_why(MessageReader& in) {
  constexpr std::size_t bytes_most = 2000;
  std::string why = in.text();
  return why.size() <= bytes_most && is_plain_text(why) ? why : quoted(why, bytes_most / 10);
}

void add(MessageWriter& out, const PutRequest& request) {
  out.text(request.variable).add(request.version);
  add(out, request.box);
  out.text(request.type).add(request.element_bytes).add(request.life);
}

bool read(MessageReader& in, PutRequest& request) {
  bool ok = true;
  request.variable = in.text();
  request.version = in.get<std::int64_t>();
  request.box = read_box(in, ok);
  request.type = in.text();
  request.element_bytes = in.get<std::int64_t>();
  request.life = in.get<Life>();
  ok = ok && request.life.life <= request.life.stamp;
  return ok && in.ok();
}

void add(MessageWriter& out, const GetRequest& request) {
  out.text(request.variable).add(request.which).add(request.version);
  add(out, request.box);
  out.add(request.life);
}

bool read(MessageReader& in, GetRequest& request) {
  bool ok = true;
  request.variable = in.text();
  request.which = in.get<Which>();
  request.version = in.get<std::int64_t>();
  request.box = read_box(in, ok);
  request.life = in.get<Life>();
  ok = ok && request.life.life <= request.life.stamp;
  return ok && in.ok() && request.which >= Which::exact && request.which <= Which::latest;
}

std::size_t add(MessageWriter& out, const Found& found, std::size_t first,
                std::size_t message_bytes) {
  out.add(found.version).text(found.type).add(found.element_bytes).add(found.lease);
  const std::size_t left = found.objects.size() - std::min(first, found.objects.size());
  MessageWriter one;
  if (left > 0) add(one, found.objects[first]);
  const std::size_t taken = out.bytes().size() + 2 * sizeof(std::uint32_t);
  const std::size_t room = message_bytes > taken ? message_bytes - taken : 0;
  const std::size_t count = left > 0 ? std::min(left, room / one.bytes().size()) : 0;
  out.add(static_cast<std::uint32_t>(count)).add(static_cast<std::uint32_t>(left - count));
  for (std::size_t k = first; k < first + count; ++k) add(out, found.objects[k]);
  return left - count;
}

bool read(MessageReader& in, Found& found, std::size_t& left) {
  bool ok = true;
  found.version = in.get<std::int64_t>();
  found.type = in.text();
  found.element_bytes = in.get<std::int64_t>();
  found.lease = in.get<std::uint64_t>();
  const auto count = in.get<std::uint32_t>();
  left = in.get<std::uint32_t>();
  if (count > objects_max || left > objects_max) return false;
  if (!possible_element_bytes(found.element_bytes)) return false;
  for (std::uint32_t k = 0; k < count && ok && in.ok(); ++k) {
    Seen seen;
    seen.home = in.get<int>();
    seen.object = in.get<std::uint64_t>();
    seen.order = in.get<std::uint64_t>();
    seen.checksum = in.get<Checksum>();
    seen.range = read_range(in);
    seen.box = read_box(in, ok);
    found.objects.push_back(seen);
  }
  return ok && in.ok();
}

void add(MessageWriter& out, const ServerInfo& info) {
  out.add(info.server).text(info.contact).add(info.memory_bytes).add(info.memory_bytes_used);
  out.add(info.spilled_bytes);
  out.add(info.clients).add(static_cast<std::uint32_t>(info.names.size()));
  for (const std::string& name : info.names) out.text(name);
}

bool read(MessageReader& in, ServerInfo& info) {
  info.server = in.get<int>();
  info.contact = in.text();
  info.memory_bytes = in.get<std::int64_t>();
  info.memory_bytes_used = in.get<std::int64_t>();
  info.spilled_bytes = in.get<std::int64_t>();
  info.clients = in.get<int>();
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t k = 0; k < count && in.ok(); ++k) info.names.push_back(in.text());
  return in.ok();
}

void add(MessageWriter& out, const Facts& facts) {
  out.text(facts.type).add(facts.element_bytes);
  add(out, facts.first);
  out.add(facts.life);
  out.add(facts.cells.origin).add(facts.cells.extents);
  out.add(facts.cells.lower).add(facts.cells.upper);
  add(out, facts.domain);
  out.add(facts.writers).add(facts.came).add(facts.producers);
  out.add(facts.missing).add(facts.deaths);
}

bool read(MessageReader& in, Facts& facts) {
  bool ok = true;
  facts.type = in.text();
  facts.element_bytes = in.get<std::int64_t>();
  facts.first = read_box(in, ok);
  facts.life = in.get<Life>();
  facts.cells.rank = facts.first.rank;
  facts.cells.origin = in.get<Point>();
  facts.cells.extents = in.get<Point>();
  for (std::size_t k = 0; k < facts.cells.extents.size(); ++k) {
    ok = ok && facts.cells.extents[k] >= 1 && facts.cells.origin[k] >= 0 &&
         facts.cells.origin[k] < facts.cells.extents[k];
  }
  facts.cells.lower = in.get<Point>();
  facts.cells.upper = in.get<Point>();
  facts.domain = read_optional_box(in, ok);
  ok = ok && (!facts.domain || facts.domain->rank == facts.first.rank);
  facts.writers = in.get<int>();
  facts.came = in.get<int>();
  facts.producers = in.get<int>();
  facts.missing = in.get<int>();
  facts.deaths = in.get<int>();
  return ok && in.ok() && possible_element_bytes(facts.element_bytes);
}

void add(MessageWriter& out, const std::vector<Stray>& strays) {
  out.add(static_cast<std::uint32_t>(strays.size()));
  for (const Stray& stray : strays) out.add(stray.home).add(stray.object);
}

bool read(MessageReader& in, std::vector<Stray>& strays) {
  const auto count = in.get<std::uint32_t>();
  if (count > strays_max) return false;
  for (std::uint32_t k = 0; k < count && in.ok(); ++k) {
    Stray& stray = strays.emplace_back();
    stray.home = in.get<int>();
    stray.object = in.get<std::uint64_t>();
  }
  return in.ok();
}

void add(MessageWriter& out, const Leased& leased) {
  out.add(leased.state).add(leased.order).add(leased.checksum);
  add(out, leased.range);
}

bool read(MessageReader& in, Leased& leased) {
  leased.state = in.get<Leased::State>();
  leased.order = in.get<std::uint64_t>();
  leased.checksum = in.get<Checksum>();
  leased.range = read_range(in);
  return in.ok() && leased.state >= Leased::State::here && leased.state <= Leased::State::gone;
}

void add(MessageWriter& out, const VariableInfo& info) {
  out.text(info.name).text(info.type).add(info.element_bytes);
  add(out, info.bounds);
  add(out, info.traffic);
  out.add(info.producers).add(static_cast<std::uint32_t>(info.versions.size()));
  for (const VersionInfo& version : info.versions) {
    out.add(version.version).add(version.objects).add(version.bytes);
  }
}

bool read(MessageReader& in, VariableInfo& info) {
  bool ok = true;
  info.name = in.text();
  info.type = in.text();
  info.element_bytes = in.get<std::int64_t>();
  info.bounds = read_bounds(in, ok);
  ok = ok && read(in, info.traffic);
  info.producers = in.get<int>();
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t k = 0; k < count && in.ok(); ++k) {
    VersionInfo version;
    version.version = in.get<std::int64_t>();
    version.objects = in.get<std::int64_t>();
    version.bytes = in.get<std::int64_t>();
    info.versions.push_back(version);
  }
  return ok && in.ok() && possible_element_bytes(info.element_bytes);
}

}  // namespace tranship::staging
