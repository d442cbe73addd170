#include "conformance/suite.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "base/random.hpp"
#include "channels/sim/sim_channel.hpp"
#include "data/lowering.hpp"
#include "data/mapping.hpp"
#include "support/test.hpp"
#include "support/waiting.hpp"

namespace tranship::test {
namespace {

void expect(bool condition, const Backend& backend, const std::string& what) {
  if (!condition) record_failure("conformance", 0, backend.name + ": " + what);
}

std::vector<std::byte> random_bytes(Random& random, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

/// Submits requests with tags 0, 1, … and waits for all; returns false if one did not end in time.
bool carry(const Backend& backend, const std::vector<Request>& requests,
           std::map<std::uint64_t, Status>& ends) {
  Channel& channel = *backend.channel;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::array<Finished, 4> finished;
  const auto collect = [&] {
    const std::size_t count = channel.poll(finished);
    for (std::size_t k = 0; k < count; ++k) {
      const bool fresh = ends.emplace(finished[k].tag, finished[k].status).second;
      expect(fresh, backend, "a request ended twice");
    }
    return count;
  };
  for (std::uint64_t tag = 0; tag < requests.size(); ++tag) {
    Request request = requests[tag];
    request.tag = tag;
    Status status = channel.submit(request);
    if (channel.capabilities().synchronous || !status) ends.emplace(tag, status);
    (void)collect();
  }
  while (ends.size() < requests.size()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (collect() == 0) channel.idle(std::chrono::milliseconds(20));
  }
  return true;
}

Layout shuffled_layout(Random& random, const IndexSpace& space) {
  std::vector<Term> terms{Term{}};
  for (const Dimension& dimension : space) {
    if (random.chance(0.3)) terms.push_back({dimension.name, random.between(1, 7)});
    terms.push_back({dimension.name, 0});
  }
  for (std::size_t k = terms.size(); k > 1; --k) {
    std::swap(terms[k - 1],
              terms[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(k)))]);
  }
  return Layout(terms);
}

/// Copies boxes of random arrays in random layouts, one request each; neighbours stay unchanged.
void carries_any_nest(const Backend& backend) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    IndexSpace space;
    const auto rank = random.between(1, 4);
    for (int k = 0; k < rank; ++k) {
      space.push_back({std::string(1, static_cast<char>('p' + k)), random.between(1, 24)});
    }
    FieldSpace fields;
    const std::array<std::int64_t, 6> sizes{1, 2, 4, 8, 16, 12};
    for (auto count = random.between(1, 3); count > 0; --count) {
      fields.push_back(
          {"f" + std::to_string(count), "V", sizes[static_cast<std::size_t>(random.below(6))]});
    }
    const auto source = Mapping::make(space, fields, shuffled_layout(random, space)).value();
    const auto target = Mapping::make(space, fields, shuffled_layout(random, space)).value();
    Corner from{source.get(), {}};
    Corner to{target.get(), {}};
    Point extents{};
    for (std::size_t k = 0; k < space.size(); ++k) {
      extents[k] = random.between(1, space[k].extent);
      from.lower[k] = random.between(0, space[k].extent - extents[k]);
      to.lower[k] = random.between(0, space[k].extent - extents[k]);
    }
    std::vector<LoopNest> nests;
    lower(from, to, extents, {}, nests);
    const auto content = random_bytes(random, source->end_bytes());
    auto expected = random_bytes(random, target->end_bytes());
    Request request;
    request.payload = nests;
    request.source = backend.make_source(content);
    request.target = backend.make_target(expected);
    for (const LoopNest& nest : nests) request.bytes += nest.bytes();
    request.cold = random.chance(0.5);
    move_bytes(nests, content.data(), expected.data());
    std::map<std::uint64_t, Status> ends;
    expect(carry(backend, {request}, ends), backend, "a request did not end");
    expect(ends.size() == 1 && ends.begin()->second.ok(), backend, "a request failed");
    if (backend.read_target() != expected) {
      expect(false, backend, "wrong bytes, seed " + std::to_string(seed));
      return;
    }
  }
}

/// Copies pages in any order, some of them adjacent, as one request of indexed nests.
void carries_indexed_nests(const Backend& backend) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    LoopNest page;
    page.element_bytes = random.between(1, 4000);
    if (random.chance(0.5)) {
      page.rank = 1;
      page.loops[0] = {random.between(2, 5), page.element_bytes + random.below(9),
                       page.element_bytes + random.below(9)};
    }
    const Loop rows =
        page.rank > 0 ? page.loops[0] : Loop{1, page.element_bytes, page.element_bytes};
    const std::int64_t source_step = rows.extent * rows.source_stride;
    const std::int64_t target_step = rows.extent * rows.target_stride;
    const std::int64_t pages = random.between(1, 40);
    const auto content = random_bytes(random, pages * source_step);
    auto expected = random_bytes(random, pages * target_step);
    IndexedCopy copy;
    copy.begin_group({&page, 1}, source_step, target_step, true);
    const std::int64_t turn = random.below(pages);
    for (std::int64_t k = 0; k < pages; ++k) {
      if (random.chance(0.2)) continue;
      copy.add_move((k + turn) % pages * source_step, k * target_step, random.between(1, 6));
    }
    copy.finish(1 << 30, 1024);
    std::vector<LoopNest> plain;
    expand(copy.nests(), plain);
    Request request;
    request.payload = copy.nests();
    request.source = backend.make_source(content);
    request.target = backend.make_target(expected);
    request.bytes = copy.bytes();
    move_bytes(plain, content.data(), expected.data());
    std::vector<LoopNest> nests;
    if (!carries(backend.channel->capabilities(), request.payload))
      request.payload = expanded(request.payload, nests);
    std::map<std::uint64_t, Status> ends;
    expect(carry(backend, {request}, ends), backend, "an indexed request did not end");
    expect(ends.size() == 1 && ends.begin()->second.ok(), backend, "an indexed request failed");
    if (backend.read_target() != expected) {
      expect(false, backend, "indexed nests: wrong bytes, seed " + std::to_string(seed));
      return;
    }
  }
}

/// Checks that each of many concurrent requests ends exactly once, in any order.
void carries_many_at_once(const Backend& backend) {
  constexpr std::int64_t pieces = 40;
  constexpr std::int64_t piece_bytes = 3001;
  Random random(7);
  const auto content = random_bytes(random, pieces * piece_bytes);
  std::vector<LoopNest> nests(pieces);
  std::vector<Request> requests(pieces);
  const Place source = backend.make_source(content);
  const Place target = backend.make_target(std::vector<std::byte>(content.size()));
  for (std::size_t k = 0; k < pieces; ++k) {
    nests[k].element_bytes = piece_bytes;
    nests[k].source_offset = static_cast<std::int64_t>(k) * piece_bytes;
    nests[k].target_offset = nests[k].source_offset;
    requests[k].payload = std::span(&nests[k], 1);
    requests[k].source = source;
    requests[k].target = target;
    requests[k].bytes = piece_bytes;
  }
  std::map<std::uint64_t, Status> ends;
  expect(carry(backend, requests, ends), backend, "not every request ended");
  for (const auto& [tag, status] : ends) expect(status.ok(), backend, "a request failed");
  expect(backend.read_target() == content, backend, "many requests: wrong bytes");
}

/// Copies with a request far larger than any slot, scratch buffer or single read.
void carries_large(const Backend& backend) {
  constexpr std::int64_t side = 1500;
  Random random(3);
  const auto content = random_bytes(random, side * side * 4);
  LoopNest nest;
  nest.element_bytes = 4;
  nest.rank = 2;
  nest.loops[0] = {side, side * 4, 4};
  nest.loops[1] = {side, 4, side * 4};
  Request request;
  request.payload = std::span(&nest, 1);
  request.source = backend.make_source(content);
  request.target = backend.make_target(std::vector<std::byte>(content.size()));
  request.bytes = nest.bytes();
  request.cold = true;
  auto expected = std::vector<std::byte>(content.size());
  move_bytes({&nest, 1}, content.data(), expected.data());
  std::map<std::uint64_t, Status> ends;
  expect(carry(backend, {request}, ends), backend, "a large request did not end");
  expect(backend.read_target() == expected, backend, "large transpose: wrong bytes");
}

/// Checks that idle() returns in time, and that wake() ends it early.
void sleeps_no_longer_than_told(const Backend& backend) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  backend.channel->idle(std::chrono::milliseconds(5));
  expect(Clock::now() - begin < soon, backend, "idle() overslept");
  begin = Clock::now();
  backend.channel->wake();
  backend.channel->idle(patience);
  expect(Clock::now() - begin < soon, backend, "wake() was lost");
}

}  // namespace

void conforms(const Backend& backend) {
  carries_any_nest(backend);
  carries_indexed_nests(backend);
  carries_many_at_once(backend);
  carries_large(backend);
  sleeps_no_longer_than_told(backend);
}

}  // namespace tranship::test
