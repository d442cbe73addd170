#include "plan/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/at.hpp"
#include "base/units.hpp"

namespace tranship::oracle {
namespace {

std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A component of an order within a tile. `ends`: no run continues beyond it.
struct Component {
  int dimension = -1;
  std::int64_t size = 1;
  bool ends = false;
};

/// Returns the layout vector of an order within a tile. array: The extents of the array in that
/// order; null for a buffer, which is as large as the tile.
std::vector<Component> components(const Case& one, const Sequence& order, const Point& tile,
                                  const Point* array) {
  std::vector<Component> all;
  Point left = tile;
  Point of_array = array != nullptr ? *array : tile;
  for (const Part& part : order.parts) {
    if (array != nullptr && part.gap_before) all.push_back({part.dimension, 1, true});
    if (part.dimension < 0) {
      all.push_back({-1, one.fields, false});
      continue;
    }
    const std::size_t d = at(part.dimension);
    const std::int64_t size = part.block > 0 ? std::min(left[d], part.block) : left[d];
    const std::int64_t room = part.block > 0 ? part.block : of_array[d];
    all.push_back({part.dimension, size, size < room});
    if (part.block == 0) continue;
    left[d] = ceiling(left[d], part.block);
    of_array[d] = ceiling(of_array[d], part.block);
  }
  return all;
}

/// Returns the bytes of the longest common prefix of two layout vectors.
std::int64_t prefix_bytes(const Case& one, std::vector<Component> a, std::vector<Component> b,
                          bool same_fields) {
  std::int64_t unit = one.field_bytes();
  std::int64_t points = 1;
  std::size_t next_a = 0;
  std::size_t next_b = 0;
  const auto skip = [](std::vector<Component>& of, std::size_t& next) {
    while (next < of.size() && of[next].size == 1) {
      if (of[next].ends) of.resize(next);  // no run continues beyond this component
      ++next;
    }
  };
  while (true) {
    skip(a, next_a);
    skip(b, next_b);
    if (next_a >= a.size() || next_b >= b.size()) break;
    Component& of_a = a[next_a];
    Component& of_b = b[next_b];
    if (of_a.dimension != of_b.dimension) break;
    if (of_a.dimension < 0) {
      if (!same_fields) break;
      unit = one.point_bytes;
      ++next_a;
      ++next_b;
      continue;
    }
    const std::int64_t shared = std::min(of_a.size, of_b.size);
    points *= shared;
    of_a.size = ceiling(of_a.size, shared);
    of_b.size = ceiling(of_b.size, shared);
    const bool ends = (of_a.size == 1 && of_a.ends) || (of_b.size == 1 && of_b.ends);
    if (ends) break;
  }
  return unit * points;
}

/// The orders on both sides of a hop. `from_array`, `to_array`: the hop reads or writes an end.
struct HopLayouts {
  const Sequence* from = nullptr;
  const Sequence* to = nullptr;
  bool from_array = false;
  bool to_array = false;
};

struct Runs {
  std::int64_t all = 0;     ///< bytes contiguous on both sides
  std::int64_t source = 0;  ///< bytes contiguous on the source's side alone
  std::int64_t target = 0;
  std::int64_t common = 0;  ///< bytes in both orders, without regard to gaps
};

Runs runs_of(const Case& one, const HopLayouts& hop, const Point& tile) {
  const bool same_fields = one.same_fields || hop.from->targets_fields == hop.to->targets_fields;
  const auto from = components(one, *hop.from, tile, hop.from_array ? &one.source_array : nullptr);
  const auto to = components(one, *hop.to, tile, hop.to_array ? &one.target_array : nullptr);
  const auto from_slot = components(one, *hop.from, tile, nullptr);
  const auto to_slot = components(one, *hop.to, tile, nullptr);
  Runs runs;
  runs.all = prefix_bytes(one, from, to, same_fields);
  runs.source = prefix_bytes(one, from, from_slot, true);
  runs.target = prefix_bytes(one, to, to_slot, true);
  runs.common = prefix_bytes(one, from_slot, to_slot, same_fields);
  return runs;
}

/// Returns the time of one tile in a channel, without its latency.
double tile_seconds(const Case& one, const ChannelSpec& channel, const Runs& runs,
                    const Point& tile) {
  std::int64_t bytes = one.point_bytes;
  for (int k = 0; k < one.rank; ++k) bytes *= tile[at(k)];
  const auto size = static_cast<double>(bytes);
  if (!channel.gathers) return size / channel.throughput.at(bytes, std::min(runs.all, bytes));
  // Only the runs on the device count; short runs in memory cost a copy by the host's own channel.
  const bool reads = channel.kind == ChannelKind::file_read;
  const std::int64_t on_device = std::min(reads ? runs.source : runs.target, bytes);
  const std::int64_t in_memory = std::min(reads ? runs.target : runs.source, runs.common);
  double seconds = size / channel.throughput.at(bytes, on_device);
  if (in_memory >= bytes) return seconds;
  const int host = reads ? channel.target : channel.source;
  for (const ChannelSpec& own : one.profile.channels) {
    const bool copies = own.kind == ChannelKind::memcpy || own.kind == ChannelKind::gpu_copy;
    if (own.source != host || own.target != host || !copies) continue;
    return seconds + size / own.throughput.at(bytes, in_memory);
  }
  return seconds;
}

/// The time that the hops so far take, by its parts.
struct Sum {
  double wait_s = 0;
  double fill_s = 0;
  double beat_s = 0;
  std::vector<double> used_s;  ///< time used, by resource

  explicit Sum(std::size_t resources) : used_s(resources, 0) {}

  void add(const Case& one, int number, double tile_s, double tile_bytes) {
    const ChannelSpec& channel = one.profile.channels[at(number)];
    const auto& waiting = one.query.waiting_s;
    if (at(number) < waiting.size()) wait_s = std::max(wait_s, waiting[at(number)] - fill_s);
    fill_s += channel.latency_s + tile_s;
    beat_s = std::max(beat_s, tile_s);
    for (const int r : channel.resources) {
      const double capacity = one.profile.resources[at(r)].bytes_per_second;
      used_s[at(r)] += capacity > 0 ? tile_bytes / capacity : tile_s;
      beat_s = std::max(beat_s, used_s[at(r)]);
    }
  }

  double seconds(double tiles) const { return wait_s + fill_s + (tiles - 1) * beat_s; }
};

double tile_bytes_of(const Case& one, const Point& tile) {
  auto bytes = static_cast<double>(one.point_bytes);
  for (int k = 0; k < one.rank; ++k) bytes *= static_cast<double>(tile[at(k)]);
  return bytes;
}

/// Returns every order that a buffer may have: number 0 is the source's, 1 the target's.
std::vector<Sequence> all_orders(const Case& one) {
  std::vector<Sequence> orders{one.source, one.target};
  for (Sequence& order : orders) {
    for (Part& part : order.parts) part.gap_before = false;
  }
  std::vector<int> dimensions;
  for (int k = one.fields > 1 ? -1 : 0; k < one.rank; ++k) {
    if (k < 0 || one.query.source.extents[at(k)] > 1) dimensions.push_back(k);
  }
  do {
    for (const bool targets_fields : {false, true}) {
      if (targets_fields && one.same_fields) continue;
      Sequence order;
      order.targets_fields = targets_fields;
      for (const int k : dimensions) order.parts.push_back({k});
      orders.push_back(order);
    }
  } while (std::next_permutation(dimensions.begin(), dimensions.end()));
  return orders;
}

/// Searches depth first over channels and orders for one tile; prunes paths that already cost too
/// much.
class TileSearch {
 public:
  TileSearch(const Case& one, const std::vector<Sequence>& orders, Orders allowed,
             const Point& tile)
      : one_(one), orders_(orders), allowed_(allowed), tile_(tile) {
    tile_bytes_ = tile_bytes_of(one, tile);
    tiles_ = static_cast<double>(one.query.source.bytes()) / tile_bytes_;
    visited_.resize(one.profile.memories.size(), false);
    slots_bytes_.resize(one.profile.memories.size(), 0);
    const std::size_t count = orders.size() + 2;
    runs_.resize(count * count);
  }

  /// Replaces `best` and lowers `seconds` if there is a faster path.
  void run(double& seconds, std::optional<Way>& best) {
    seconds_ = &seconds;
    best_ = &best;
    const auto& query = one_.query;
    visited_[at(query.source_memory)] = query.source_memory != query.target_memory;
    visit(query.source_memory, 0, Sum(one_.profile.resources.size()));
  }

 private:
  /// Returns an order by its number: the source's array, the target's array, then the buffers'.
  const Sequence& order(std::size_t number) const {
    if (number == 0) return one_.source;
    return number == 1 ? one_.target : orders_[number - 2];
  }

  double time_of(int channel, std::size_t from, std::size_t to) {
    const std::size_t count = orders_.size() + 2;
    auto& runs = runs_[from * count + to];
    if (!runs) runs = runs_of(one_, {&order(from), &order(to), from == 0, to == 1}, tile_);
    return tile_seconds(one_, one_.profile.channels[at(channel)], *runs, tile_);
  }

  bool allowed(std::size_t from, std::size_t to) const {
    if (allowed_ == Orders::all) return true;
    const bool converted = from == 3;
    return to == 3 || (to == 2 && !converted);
  }

  void visit(int memory, std::size_t from, const Sum& sum) {
    const auto& query = one_.query;
    const auto& through = query.through;
    for (std::size_t c = 0; c < one_.profile.channels.size(); ++c) {
      const ChannelSpec& channel = one_.profile.channels[c];
      if (channel.source != memory) continue;
      const int next = channel.target;
      const bool loops = next == memory;
      if (loops ? looped_ : visited_[at(next)] != 0) continue;
      if (!through.empty() &&
          (channels_.size() + 1 >= through.size() || through[channels_.size() + 1] != next)) {
        continue;
      }
      channels_.push_back(static_cast<int>(c));
      looped_ = looped_ || loops;
      const bool whole = through.empty() || channels_.size() + 1 == through.size();
      if (next == query.target_memory && whole) arrive(from, sum);
      pass(next, from, sum);
      if (loops) looped_ = false;
      channels_.pop_back();
    }
  }

  void arrive(std::size_t from, Sum sum) {
    const int channel = channels_.back();
    sum.add(one_, channel, time_of(channel, from, 1), tile_bytes_);
    const double seconds = sum.seconds(tiles_);
    if (seconds >= *seconds_) return;
    *seconds_ = seconds;
    Way way{channels_, {}, tile_, seconds};
    for (const std::size_t number : buffers_) way.buffers.push_back(order(number));
    *best_ = way;
  }

  /// Continues to a buffer in `memory`, in each of the orders.
  void pass(int memory, std::size_t from, const Sum& sum) {
    const Memory& where = one_.profile.memories[at(memory)];
    const auto bytes = static_cast<std::int64_t>(tile_bytes_);
    if (where.threshold_bytes > 0 && bytes > where.threshold_bytes) return;
    const int channel = channels_.back();
    const char before = visited_[at(memory)];
    visited_[at(memory)] = true;
    const std::size_t end = allowed_ == Orders::all ? orders_.size() + 2 : 4;
    for (std::size_t to = 2; to < end; ++to) {
      if (!allowed(from, to)) continue;
      const std::int64_t ring = 2 * slot_bytes(one_, order(to), tile_);
      const std::int64_t most = one_.query.buffer_bytes_max;
      if (slots_bytes_[at(memory)] + ring > where.buffer_bytes_max) continue;
      if (most > 0 && slots_bytes_all_ + ring > most) continue;
      Sum longer = sum;
      longer.add(one_, channel, time_of(channel, from, to), tile_bytes_);
      if (longer.seconds(tiles_) >= *seconds_) continue;
      slots_bytes_[at(memory)] += ring;
      slots_bytes_all_ += ring;
      buffers_.push_back(to);
      visit(memory, to, longer);
      buffers_.pop_back();
      slots_bytes_[at(memory)] -= ring;
      slots_bytes_all_ -= ring;
    }
    visited_[at(memory)] = before;
  }

  const Case& one_;
  const std::vector<Sequence>& orders_;
  Orders allowed_;
  Point tile_;
  double tile_bytes_ = 0;
  double tiles_ = 1;
  std::vector<std::optional<Runs>> runs_;
  std::vector<char> visited_;
  std::vector<std::int64_t> slots_bytes_;  ///< bytes of the slots, by memory
  std::int64_t slots_bytes_all_ = 0;
  std::vector<int> channels_;
  std::vector<std::size_t> buffers_;
  bool looped_ = false;
  double* seconds_ = nullptr;
  std::optional<Way>* best_ = nullptr;
};

/// Returns every box whose extents divide the region's, the largest first.
std::vector<Point> divisor_boxes(const Case& one) {
  std::vector<Point> boxes(1);
  for (int k = 0; k < one.rank; ++k) {
    std::vector<Point> longer;
    const std::int64_t extent = one.query.source.extents[at(k)];
    for (const Point& box : boxes) {
      for (std::int64_t size = extent; size >= 1; --size) {
        if (extent % size != 0) continue;
        Point next = box;
        next[at(k)] = size;
        longer.push_back(next);
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

std::string text_of(const Case& one, const Sequence& order) {
  std::string text;
  for (const Part& part : order.parts) {
    const auto& space = one.query.source.mapping->space();
    text += (text.empty() ? "" : ", ") + std::string(part.gap_before ? "| " : "");
    text += part.dimension < 0 ? "F" : space[at(part.dimension)].name;
    if (part.block > 0) text += ":" + std::to_string(part.block);
  }
  return "<" + text + ">" + (order.targets_fields ? "'" : "");
}

}  // namespace

std::optional<Way> fastest(const Case& one, double seconds_max, Orders orders) {
  std::optional<Way> best;
  double seconds = seconds_max;
  const std::vector<Sequence> sequences = all_orders(one);
  for (const Point& tile : divisor_boxes(one)) {
    if (!divides(one, tile)) continue;
    TileSearch(one, sequences, orders, tile).run(seconds, best);
  }
  return best;
}

double seconds_of(const Case& one, const Way& way, int slots) {
  Sum sum(one.profile.resources.size());
  const double tile_bytes = tile_bytes_of(one, way.tile);
  for (std::size_t k = 0; k < way.channels.size(); ++k) {
    const bool first = k == 0;
    const bool last = k + 1 == way.channels.size();
    const HopLayouts hop{first ? &one.source : &way.buffers[k - 1],
                         last ? &one.target : &way.buffers[k], first, last};
    const ChannelSpec& channel = one.profile.channels[at(way.channels[k])];
    const double tile_s = tile_seconds(one, channel, runs_of(one, hop, way.tile), way.tile);
    sum.add(one, way.channels[k], tile_s, tile_bytes);
  }
  if (slots == 1) sum.beat_s = sum.fill_s;
  const double tiles = static_cast<double>(one.query.source.bytes()) / tile_bytes;
  return sum.seconds(std::max(tiles, 1.0));
}

std::int64_t slot_bytes(const Case& one, const Sequence& order, const Point& tile) {
  std::vector<std::int64_t> block(at(one.rank), 1);
  for (const Part& part : order.parts) {
    if (part.dimension >= 0 && part.block > 0) block[at(part.dimension)] *= part.block;
  }
  std::int64_t bytes = one.point_bytes;
  for (int k = 0; k < one.rank; ++k) {
    const std::int64_t width = std::min(block[at(k)], tile[at(k)]);
    bytes *= ceiling(tile[at(k)], width) * width;
  }
  return bytes;
}

bool divides(const Case& one, const Point& tile) {
  for (const Sequence* order : {&one.source, &one.target}) {
    Point left = tile;
    for (const Part& part : order->parts) {
      if (part.dimension < 0 || part.block == 0) continue;
      std::int64_t& rest = left[at(part.dimension)];
      if (rest % part.block != 0) return false;
      rest /= part.block;
    }
  }
  std::map<int, std::int64_t> blocks;
  for (const Part& part : one.source.parts) {
    if (part.dimension >= 0 && part.block > 0) blocks[part.dimension] = part.block;
  }
  for (const Part& part : one.target.parts) {
    if (part.dimension < 0 || part.block == 0 || !blocks.contains(part.dimension)) continue;
    const std::int64_t other = blocks[part.dimension];
    if (part.block % other != 0 && other % part.block != 0) return false;
  }
  return true;
}

std::string describe(const Case& one) {
  const PlanQuery& query = one.query;
  std::string text =
      "from " + one.profile.memories[at(query.source_memory)].name + " " +
      text_of(one, one.source) + " to " + one.profile.memories[at(query.target_memory)].name + " " +
      text_of(one, one.target) + ", " + std::to_string(one.fields) + " fields of " +
      std::to_string(one.point_bytes) + " bytes" + (one.same_fields ? "" : " in other sequences") +
      ", buffers " + std::to_string(query.buffer_bytes_max) + ", extents (array)";
  for (int k = 0; k < one.rank; ++k) {
    text += " " + std::to_string(query.source.extents[at(k)]) + " (" +
            std::to_string(one.source_array[at(k)]) + ", " +
            std::to_string(one.target_array[at(k)]) + ")";
  }
  return text + "\n" + one.profile.to_json();
}

std::string describe(const Case& one, const Way& way) {
  std::string text =
      format_seconds(way.seconds) + " (" + std::to_string(way.seconds * 1e6) + " us) by";
  for (std::size_t k = 0; k < way.channels.size(); ++k) {
    text += " " + one.profile.channels[at(way.channels[k])].name;
    if (k < way.buffers.size()) text += " " + text_of(one, way.buffers[k]);
  }
  text += ", tile";
  for (int k = 0; k < one.rank; ++k) text += " " + std::to_string(way.tile[at(k)]);
  return text;
}

}  // namespace tranship::oracle
