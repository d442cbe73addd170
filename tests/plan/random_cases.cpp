#include "plan/random_cases.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/at.hpp"
#include "base/random.hpp"

namespace tranship::oracle {
namespace {

template <typename T>
const T& pick(Random& random, const std::vector<T>& from) {
  return from[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(from.size())))];
}

template <typename T>
void shuffle(Random& random, std::vector<T>& all) {
  for (std::size_t k = all.size(); k > 1; --k) {
    std::swap(all[k - 1], all[static_cast<std::size_t>(random.below(static_cast<int>(k)))]);
  }
}

double unit(Random& random) { return static_cast<double>(random.below(1 << 20)) / (1 << 20); }

/// Returns random rates, which rise with request and run, from a share of the peak that may be tiny
/// or nearly all.
Throughput random_throughput(Random& random, double peak) {
  std::vector<std::int64_t> requests{std::int64_t{16384} << random.below(3)};
  while (requests.size() < 5 && random.chance(0.6))
    requests.push_back(requests.back() << random.between(1, 4));
  std::vector<std::int64_t> runs{std::int64_t{1} << random.between(0, 8)};
  while (runs.size() < 5 && random.chance(0.7)) runs.push_back(runs.back() << random.between(1, 6));
  const double by_request = random.chance(0.3) ? 0 : 2 * unit(random);
  const double by_run = random.chance(0.3) ? 0 : unit(random);
  std::vector<Sample> samples;
  for (const std::int64_t request : requests) {
    for (const std::int64_t run : runs) {
      const double size = static_cast<double>(request) / static_cast<double>(requests.back());
      const double length = static_cast<double>(run) / static_cast<double>(runs.back());
      const double wobble = 0.8 + 0.2 * unit(random);
      samples.push_back(
          {request, run, peak * wobble * std::pow(size, by_request) * std::pow(length, by_run)});
    }
  }
  return Throughput(samples);
}

ChannelSpec random_channel(Random& random, const Profile& profile, int source, int target) {
  ChannelSpec channel;
  channel.name = "c" + std::to_string(profile.channels.size()) + " " + std::to_string(source) +
                 ">" + std::to_string(target);
  channel.source = source;
  channel.target = target;
  const std::vector<ChannelKind> kinds{ChannelKind::gpu_read,     ChannelKind::gpu_write,
                                       ChannelKind::remote_write, ChannelKind::file_read,
                                       ChannelKind::file_write,   ChannelKind::memcpy};
  channel.kind = pick(random, kinds);
  if (source == target) {
    channel.kind = random.chance(0.5) ? ChannelKind::memcpy : ChannelKind::gpu_copy;
  }
  const bool files =
      channel.kind == ChannelKind::file_read || channel.kind == ChannelKind::file_write;
  channel.gathers = files && random.chance(0.7);
  channel.throughput = random_throughput(random, 1e8 * std::exp2(7 * unit(random)));
  channel.latency_s = random.chance(0.2) ? 0 : 1e-6 * std::exp2(6 * unit(random));
  for (std::size_t r = 0; r < profile.resources.size(); ++r) {
    if (random.chance(0.3)) channel.resources.push_back(static_cast<int>(r));
  }
  return channel;
}

Profile small_machine(Random& random, bool tight) {
  Profile profile;
  profile.host = "random";
  const int memories = static_cast<int>(random.between(3, 6));
  const std::vector<MemoryKind> kinds{MemoryKind::host, MemoryKind::pinned, MemoryKind::device,
                                      MemoryKind::file};
  for (int k = 0; k < memories; ++k) {
    const std::int64_t room = tight ? random.between(10, 21) : random.between(19, 24);
    const std::int64_t budget = random.chance(0.15) ? 0 : std::int64_t{1} << room;
    const std::int64_t threshold =
        random.chance(0.5) ? 0 : std::int64_t{1} << (tight ? room - 1 : random.between(16, 20));
    profile.memories.push_back({"m" + std::to_string(k), pick(random, kinds), budget, threshold});
  }
  for (int k = static_cast<int>(random.below(4)); k > 0; --k) {
    const double capacity = random.chance(0.5) ? 0 : 1e8 * std::exp2(8 * unit(random));
    profile.resources.push_back({"r" + std::to_string(k), capacity});
  }
  const double density = 0.35 + 0.45 * unit(random);
  for (int source = 0; source < memories; ++source) {
    for (int target = 0; target < memories; ++target) {
      if (source == target && random.chance(0.4)) continue;
      if (source != target && !random.chance(density)) continue;
      profile.channels.push_back(random_channel(random, profile, source, target));
      if (source == target || random.chance(0.85)) continue;
      profile.channels.push_back(random_channel(random, profile, source, target));
    }
  }
  return profile;
}

/// The extents and fields that both ends have in common.
struct Shape {
  std::vector<std::int64_t> extents;
  FieldSpace fields;
};

FieldSpace random_fields(Random& random, int most) {
  FieldSpace fields;
  for (int k = static_cast<int>(random.between(1, most)); k > 0; --k) {
    const std::int64_t bytes =
        pick(random, std::vector<std::int64_t>{1, 2, 4, 4, 8, 8, 16, 24, 64, 256, 1000});
    fields.push_back({"f" + std::to_string(k), "V" + std::to_string(bytes), bytes});
  }
  return fields;
}

std::int64_t bytes_of(const FieldSpace& fields) {
  std::int64_t bytes = 0;
  for (const Field& field : fields) bytes += field.bytes;
  return bytes;
}

Shape small_shape(Random& random) {
  Shape shape{{}, random_fields(random, 3)};
  const std::vector<std::int64_t> sizes{1,  2,  3,  4,  6,  7,  8,  10, 12,
                                        16, 18, 24, 30, 32, 36, 48, 60};
  const auto rank = random.between(1, 3);
  for (int k = 0; k < rank; ++k) shape.extents.push_back(pick(random, sizes));
  if (rank == 1 && random.chance(0.8)) shape.extents[0] *= pick(random, sizes) * 2;
  while (true) {
    std::int64_t bytes = bytes_of(shape.fields);
    for (const std::int64_t extent : shape.extents) bytes *= extent;
    if (bytes <= 1 << 20) return shape;
    auto& largest = *std::max_element(shape.extents.begin(), shape.extents.end());
    largest = (largest + 1) / 2;
  }
}

/// One end of a transfer, as a view and in the oracle's types.
struct End {
  View view;
  Sequence sequence;
  Point array{};
};

const char* const names[] = {"x", "y", "z", "w", "v", "u", "t", "s"};

/// Returns a random order of the dimensions and of the fields (-1).
std::vector<int> random_order(Random& random, int rank) {
  std::vector<int> order;
  for (int k = -1; k < rank; ++k) order.push_back(k);
  shuffle(random, order);
  return order;
}

IndexSpace space_of(const std::vector<std::int64_t>& extents) {
  IndexSpace space;
  for (std::size_t k = 0; k < extents.size(); ++k) space.push_back({names[k], extents[k]});
  return space;
}

/// Returns a view with gaps between its steps, as NumPy makes them.
End strided_end(Random& random, const Shape& shape, const std::vector<int>& order) {
  End end;
  std::vector<Mapping::StridedField> fields;
  for (const Field& field : shape.fields) {
    fields.push_back({field, 0, std::vector<std::int64_t>(shape.extents.size(), 0)});
  }
  std::int64_t points = 1;
  std::int64_t record = 0;
  for (const int k : order) {
    const bool single = k < 0 && fields.size() == 1;
    const bool gap = !single && random.chance(0.25);
    if (gap) points *= random.between(2, 3);
    if (!single) end.sequence.parts.push_back({k, 0, gap});
    for (auto& field : fields) {
      if (k < 0) {
        field.offset = points * record;
        record += field.field.bytes;
      } else {
        field.strides[at(k)] = points * (record > 0 ? record : field.field.bytes);
      }
    }
    // Fields that lie apart by a gap lengthen the record by the same factor.
    if (k < 0 && gap) {
      record *= points;
      points = 1;
    } else if (k >= 0) {
      points *= shape.extents[at(k)];
    }
  }
  end.view = View::whole(Mapping::make_strided(space_of(shape.extents), fields).value());
  end.array = end.view.extents;
  return end;
}

/// Returns an end with a layout, perhaps in blocks, of an array that may be larger than the region.
End laid_out_end(Random& random, const Shape& shape, const std::vector<int>& order) {
  End end;
  std::vector<std::int64_t> extents = shape.extents;
  Point lower{};
  if (random.chance(0.2)) {
    for (std::size_t k = 0; k < extents.size(); ++k) {
      if (random.chance(0.5)) extents[k] += random.between(1, 5);
      lower[k] = random.between(0, extents[k] - shape.extents[k]);
    }
  }
  std::vector<Term> terms;
  const int blocked = random.chance(0.15) ? static_cast<int>(random.below(3)) : -1;
  for (const int k : order) {
    if (k >= 0 || shape.fields.size() > 1) end.sequence.parts.push_back({k});
    terms.push_back(k < 0 ? Term{} : Term{names[k], 0});
  }
  if (blocked >= 0 && blocked < static_cast<int>(extents.size())) {
    const std::int64_t block = random.between(2, 6);
    terms.insert(terms.begin(), Term{names[blocked], block});
    end.sequence.parts.insert(end.sequence.parts.begin(), {blocked, block});
  }
  const auto mapping = Mapping::make(space_of(extents), shape.fields, Layout(terms)).value();
  end.view = View::whole(mapping);
  end.array = end.view.extents;
  end.view.lower = lower;
  for (std::size_t k = 0; k < extents.size(); ++k) end.view.extents[k] = shape.extents[k];
  return end;
}

End random_end(Random& random, const Shape& shape) {
  const std::vector<int> order = random_order(random, static_cast<int>(shape.extents.size()));
  return random.chance(0.2) ? strided_end(random, shape, order)
                            : laid_out_end(random, shape, order);
}

void add_ends(Random& random, Case& one, const Shape& shape) {
  const End source = random_end(random, shape);
  Shape other = shape;
  if (random.chance(0.25)) shuffle(random, other.fields);
  const End target =
      random.chance(0.3) && other.fields == shape.fields ? source : random_end(random, other);
  one.query.source = source.view;
  one.query.target = target.view;
  one.source = source.sequence;
  one.target = target.sequence;
  one.source_array = source.array;
  one.target_array = target.array;
  one.rank = static_cast<int>(shape.extents.size());
  one.fields = static_cast<int>(shape.fields.size());
  one.point_bytes = bytes_of(shape.fields);
  one.same_fields = other.fields == shape.fields;
  one.target.targets_fields = !one.same_fields;
}

void add_circumstances(Random& random, Case& one, bool tight) {
  if (random.chance(0.3)) {
    one.query.buffer_bytes_max = std::int64_t{1}
                                 << (tight ? random.between(10, 21) : random.between(19, 24));
  }
  if (!random.chance(0.2)) return;
  for (std::size_t c = 0; c < one.profile.channels.size(); ++c) {
    one.query.waiting_s.push_back(random.chance(0.6) ? 0 : 1e-6 * std::exp2(9 * unit(random)));
  }
}

/// The memories of a node of the cluster, by number.
struct Node {
  int host = 0;
  int pinned = 0;
  int file = 0;
  std::vector<int> devices;
};

/// Builds the profile of a cluster of two nodes.
class TwoNodes {
 public:
  explicit TwoNodes(Random& random) : random_(random) {}

  Profile make() {
    profile_.host = "random";
    profile_.planning_s = 1e-4;
    profile_.handoff_s = 1e-5;
    // Most nodes are small, because the time to plan grows with the number of paths.
    int devices = 1;
    while (devices < 5 && random_.chance(0.3)) ++devices;
    const Node nodes[] = {add_node("node0/", devices), add_node("node1/", devices)};
    for (const int k : {0, 1}) {
      const int card = resource(random_.chance(0.5) ? 5e9 : 2e10);
      for (const int source : {nodes[k].host, nodes[k].pinned}) {
        for (const int target : {nodes[1 - k].host, nodes[1 - k].pinned}) {
          join(ChannelKind::remote_write, source, target, 4e9, {card});
        }
      }
    }
    return std::move(profile_);
  }

 private:
  int memory(const std::string& name, MemoryKind kind, bool holds_buffers) {
    const std::int64_t budget = holds_buffers ? std::int64_t{1} << random_.between(22, 28) : 0;
    const std::int64_t threshold =
        random_.chance(0.5) ? 0 : std::int64_t{1} << random_.between(18, 25);
    profile_.memories.push_back({name, kind, budget, threshold});
    return static_cast<int>(profile_.memories.size()) - 1;
  }

  int resource(double bytes_per_second) {
    profile_.resources.push_back(
        {"r" + std::to_string(profile_.resources.size()), bytes_per_second});
    return static_cast<int>(profile_.resources.size()) - 1;
  }

  void join(ChannelKind kind, int source, int target, double rate, std::vector<int> resources) {
    if (random_.chance(0.1)) return;
    ChannelSpec channel;
    channel.name = std::string(to_string(kind)) + " " + profile_.memories[at(source)].name + " " +
                   profile_.memories[at(target)].name;
    channel.kind = kind;
    channel.source = source;
    channel.target = target;
    channel.gathers = kind == ChannelKind::file_read || kind == ChannelKind::file_write;
    // Channels of a kind mostly have equal throughput.
    ChannelSpec& like = of_kind_[kind];
    if (like.throughput.empty() || random_.chance(0.1)) {
      like.throughput = random_throughput(random_, rate * std::exp2(2 * unit(random_) - 1));
      like.latency_s = 1e-6 * std::exp2(5 * unit(random_));
    }
    channel.throughput = like.throughput;
    channel.latency_s = like.latency_s;
    channel.resources = std::move(resources);
    profile_.channels.push_back(std::move(channel));
  }

  Node add_node(const std::string& name, int devices) {
    Node node;
    const int cores = resource(0);
    node.host = memory(name + "host0", MemoryKind::host, true);
    node.pinned = memory(name + "pinned0", MemoryKind::pinned, true);
    node.file = memory(name + "file0", MemoryKind::file, false);
    for (const int source : {node.host, node.pinned}) {
      for (const int target : {node.host, node.pinned}) {
        join(ChannelKind::memcpy, source, target, 1e10, {cores});
      }
      join(ChannelKind::file_read, node.file, source, 2.8e9, {});
      join(ChannelKind::file_write, source, node.file, 2e9, {});
    }
    for (int k = 0; k < devices; ++k) {
      const int device =
          memory(name + "device" + std::to_string(k), MemoryKind::device, random_.chance(0.8));
      const int up = resource(5e10);
      const int down = resource(5e10);
      for (const int host : {node.host, node.pinned}) {
        join(ChannelKind::gpu_read, device, host, 3e10, {up});
        join(ChannelKind::gpu_write, host, device, 3e10, {down});
      }
      join(ChannelKind::gpu_copy, device, device, 1e12, {});
      for (const int peer : node.devices) {
        join(ChannelKind::gpu_peer, device, peer, 2e11, {});
        join(ChannelKind::gpu_peer, peer, device, 2e11, {});
      }
      node.devices.push_back(device);
    }
    return node;
  }

  Random& random_;
  Profile profile_;
  std::map<ChannelKind, ChannelSpec> of_kind_;  ///< the last channel made of each kind
};

Shape large_shape(Random& random) {
  Shape shape{{}, random_fields(random, 4)};
  const auto rank = random.between(1, 4);
  for (int k = 0; k < rank; ++k) {
    const double size = std::exp2(unit(random) * 28 / static_cast<double>(rank));
    shape.extents.push_back(std::max<std::int64_t>(static_cast<std::int64_t>(size), 1));
  }
  return shape;
}

}  // namespace

Profile large_machine(std::uint64_t seed) {
  Random random(seed * 2 + 1);
  return TwoNodes(random).make();
}

PlanQuery large_query(std::uint64_t seed, const Profile& profile) {
  Random random(seed * 2);
  Case one;
  add_ends(random, one, large_shape(random));
  const auto memories = static_cast<std::int64_t>(profile.memories.size());
  one.query.source_memory = static_cast<int>(random.below(memories));
  one.query.target_memory = static_cast<int>(random.below(memories));
  return one.query;
}

Case small_case(std::uint64_t seed) {
  Random random(seed * 2 + 1);
  Case one;
  const bool tight = random.chance(0.3);
  one.profile = small_machine(random, tight);
  add_ends(random, one, small_shape(random));
  const auto memories = static_cast<std::int64_t>(one.profile.memories.size());
  one.query.source_memory = static_cast<int>(random.below(memories));
  one.query.target_memory = static_cast<int>(random.below(memories));
  one.query.planner = PlannerKind::full;
  add_circumstances(random, one, tight);
  return one;
}

}  // namespace tranship::oracle
