#include "staging/messages.hpp"

#include <algorithm>

#include "data/lowering.hpp"

namespace tranship::staging {
namespace {

constexpr std::uint32_t parts_max = 1U << 20;

/// Bytes from the start of a dense array of `box` to the element at `lower`.
std::int64_t offset_in(const Box& box, const Point& lower, std::int64_t element_bytes) {
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
    offset = offset * (box.upper[k] - box.lower[k]) + lower[k] - box.lower[k];
  }
  return offset * element_bytes;
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

void add(MessageWriter& out, const Part& part) {
  add(out, part.range);
  tranship::staging::add(out, part.object_box);
  tranship::staging::add(out, part.box);
}

}  // namespace

void add(MessageWriter& out, const Box& box) {
  out.add(static_cast<std::uint32_t>(box.rank));
  for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
    out.add(box.lower[k]).add(box.upper[k]);
  }
}

Box read_box(MessageReader& in, bool& ok) {
  const auto rank = in.get<std::uint32_t>();
  if (!in.ok() || rank > static_cast<std::uint32_t>(dimensions_max)) {
    ok = false;
    return {};
  }
  std::vector<std::int64_t> lower(rank);
  std::vector<std::int64_t> upper(rank);
  for (std::size_t k = 0; k < rank; ++k) {
    lower[k] = in.get<std::int64_t>();
    upper[k] = in.get<std::int64_t>();
  }
  const auto box = Box::make(lower, upper);
  ok = ok && in.ok() && box.ok();
  return ok ? *box : Box{};
}

void add(MessageWriter& out, const PutRequest& request) {
  out.text(request.variable).add(request.version);
  add(out, request.box);
  out.text(request.type).add(request.element_bytes);
}

bool read(MessageReader& in, PutRequest& request) {
  bool ok = true;
  request.variable = in.text();
  request.version = in.get<std::int64_t>();
  request.box = read_box(in, ok);
  request.type = in.text();
  request.element_bytes = in.get<std::int64_t>();
  return ok && in.ok();
}

void add(MessageWriter& out, const GetRequest& request) {
  out.text(request.variable).add(request.which).add(request.version);
  add(out, request.box);
}

bool read(MessageReader& in, GetRequest& request) {
  bool ok = true;
  request.variable = in.text();
  request.which = in.get<Which>();
  request.version = in.get<std::int64_t>();
  request.box = read_box(in, ok);
  return ok && in.ok() && request.which >= Which::exact && request.which <= Which::latest;
}

std::size_t add(MessageWriter& out, const Found& found, std::size_t first,
                std::size_t message_bytes) {
  out.add(found.version).text(found.type).add(found.element_bytes).add(found.lease);
  const std::size_t left = found.parts.size() - std::min(first, found.parts.size());
  MessageWriter one;
  if (left > 0) add(one, found.parts[first]);
  const std::size_t taken = out.bytes().size() + 2 * sizeof(std::uint32_t);
  const std::size_t room = message_bytes > taken ? message_bytes - taken : 0;
  const std::size_t count = left > 0 ? std::min(left, room / one.bytes().size()) : 0;
  out.add(static_cast<std::uint32_t>(count)).add(static_cast<std::uint32_t>(left - count));
  for (std::size_t k = first; k < first + count; ++k) add(out, found.parts[k]);
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
  if (count > parts_max || left > parts_max) return false;
  for (std::uint32_t k = 0; k < count && ok && in.ok(); ++k) {
    Part part;
    part.range = read_range(in);
    part.object_box = read_box(in, ok);
    part.box = read_box(in, ok);
    found.parts.push_back(part);
  }
  return ok && in.ok();
}

void add(MessageWriter& out, const VariableInfo& info) {
  out.text(info.name).text(info.type).add(info.rank);
  add(out, info.bounds);
  out.add(info.producers).add(static_cast<std::uint32_t>(info.versions.size()));
  for (const VersionInfo& version : info.versions) {
    out.add(version.version).add(version.objects).add(version.bytes);
  }
}

bool read(MessageReader& in, VariableInfo& info) {
  bool ok = true;
  info.name = in.text();
  info.type = in.text();
  info.rank = in.get<int>();
  info.bounds = read_box(in, ok);
  info.producers = in.get<int>();
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t k = 0; k < count && in.ok(); ++k) {
    VersionInfo version;
    version.version = in.get<std::int64_t>();
    version.objects = in.get<std::int64_t>();
    version.bytes = in.get<std::int64_t>();
    info.versions.push_back(version);
  }
  return ok && in.ok();
}

LoopNest nest_of(const Box& part, const Box& source, const Box& target,
                 std::int64_t element_bytes) {
  LoopNest nest;
  nest.element_bytes = element_bytes;
  nest.source_offset = offset_in(source, part.lower, element_bytes);
  nest.target_offset = offset_in(target, part.lower, element_bytes);
  std::int64_t source_stride = element_bytes;
  std::int64_t target_stride = element_bytes;
  for (int k = part.rank - 1; k >= 0; --k) {
    nest.loops[static_cast<std::size_t>(nest.rank++)] = {part.extent(k), source_stride,
                                                         target_stride};
    source_stride *= source.extent(k);
    target_stride *= target.extent(k);
  }
  coalesce(nest);
  return nest;
}

}  // namespace tranship::staging
