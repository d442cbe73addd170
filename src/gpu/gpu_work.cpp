#include "gpu/gpu_work.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "gpu/pitches.hpp"

namespace tranship {
namespace {

/// Smallest number of runs that one kernel carries together.
constexpr std::size_t pieces_least = 4;
/// Smallest number of pieces for which a copy of their table to the GPU costs less than the reads
/// of all blocks over the link.
constexpr std::int64_t uploaded_pieces_least = 512;
/// Largest number of runs of a RunList for which copying the table to the GPU costs less than
/// reading it over the link. In longer lists few warps read one entry, and the copy hides that
/// (16,384 runs of 4 KiB on an H100: 59.5 us, and 61.5 with a table on the GPU).
constexpr std::int64_t uploaded_runs_most = 2048;
/// Largest piece, in bytes, of a longer run of several moves: cutting gives all pieces as many
/// threads.
constexpr std::int64_t piece_bytes_most = 64 * 1024;
/// Smallest mean run, in bytes, for which a copy engine's command costs less than a kernel loses
/// over the link.
constexpr std::int64_t engine_run_least = 256 * 1024;
/// Smallest number of places for which a copy of their table to the GPU costs less than the reads
/// of all blocks over the link.
constexpr std::size_t uploaded_places_least = 2048;
/// Longest run, in bytes, in GPU memory whose launch takes the caller less time than the driver's
/// copy does (on an H100's host 3 us in place of 6).
constexpr std::int64_t kernel_run_most = 256 * 1024;
/// Smallest mean number of moves of an entry for which a loop costs less than as many pieces.
constexpr std::int64_t loop_moves_least = 16;
/// Smallest number of pieces that take a launch of their own beside loops.
constexpr std::size_t divided_pieces_least = 256;
/// Smallest number of nests for which a table costs less than a launch for each.
constexpr std::size_t list_least = 3;
/// Smallest row, in bytes, with which a copy engine is as fast over the link as with long runs.
constexpr std::int64_t engine_row_least = 64;
/// Most copy commands for one nest: each costs the caller a few microseconds.
constexpr std::int64_t engine_commands_most = 4;

/// Bytes within which kernels' plans depend on where an address lies: a line of the GPU's cache.
constexpr std::uintptr_t alignment_bytes = 128;

/// Returns the element and the two inner loops as one command of a copy engine, if it can walk
/// them.
std::optional<PitchedCopy> pitched(const LoopNest& nest) {
  PitchedCopy shape;
  shape.width_bytes = nest.element_bytes;
  if (nest.rank == 0) return shape;
  const Loop& rows = nest.loops[0];
  shape.rows = rows.extent;
  shape.source_pitch = rows.source_stride;
  shape.target_pitch = rows.target_stride;
  if (std::min(rows.source_stride, rows.target_stride) < nest.element_bytes) return std::nullopt;
  if (nest.rank == 1) return shape;
  const Loop& planes = nest.loops[1];
  shape.planes = planes.extent;
  shape.source_plane = planes.source_stride;
  shape.target_plane = planes.target_stride;
  const bool walks = planes.source_stride >= rows.extent * rows.source_stride &&
                     planes.target_stride >= rows.extent * rows.target_stride &&
                     planes.source_stride % rows.source_stride == 0 &&
                     planes.target_stride % rows.target_stride == 0;
  return walks ? std::optional(shape) : std::nullopt;
}

std::int64_t outer_count(const LoopNest& nest) {
  std::int64_t count = 1;
  for (int k = 2; k < nest.rank; ++k) count *= nest.loops[static_cast<std::size_t>(k)].extent;
  return count;
}

bool long_runs(std::span<const LoopNest> nests) {
  std::int64_t bytes = 0;
  for (const LoopNest& nest : nests) bytes += nest.bytes();
  return bytes / static_cast<std::int64_t>(nests.size()) >= engine_run_least;
}

/// Returns whether the entries are mostly long loops, such as the members of records. A table with
/// a piece for each move would then have more bytes than the elements.
bool are_loops(std::span<const IndexedNest> nests) {
  std::int64_t entries = 0;
  std::int64_t pieces = 0;
  for (const IndexedNest& one : nests) {
    // Lists of nests cannot walk the target backwards: each entry would be a launch of its own.
    if (one.target_step < 0 && one.entries.size() > list_least) return false;
    entries += static_cast<std::int64_t>(one.entries.size());
    pieces += one.moves_touch() ? static_cast<std::int64_t>(one.entries.size()) : one.moves();
  }
  return pieces >= loop_moves_least * entries;
}

/// Divides nests into those whose entries are pieces, and loops. Returns false if there are no
/// loops, or so few pieces that one more launch costs more; the two lists then have no meaning.
bool divide(std::span<const IndexedNest> nests, std::vector<IndexedNest>& pieces,
            std::vector<IndexedNest>& loops) {
  pieces.clear();
  loops.clear();
  std::size_t entries = 0;
  for (const IndexedNest& one : nests) {
    const bool loop = one.nest.rank > 0 || are_loops({&one, 1});
    (loop ? loops : pieces).push_back(one);
    if (!loop) entries += one.entries.size();
  }
  return entries >= divided_pieces_least && !loops.empty();
}

/// Returns whether one kernel should carry the nests as a list of pieces.
bool in_pieces(std::span<const IndexedNest> nests, GpuWay way) {
  std::int64_t bytes = 0;
  std::int64_t commands = 0;  // commands that copy engines would need
  for (const IndexedNest& one : nests) {
    if (one.nest.rank > 0) return false;
    const auto entries = static_cast<std::int64_t>(one.entries.size());
    if (way != GpuWay::over_link) {
      commands += entries;
      continue;
    }
    const std::int64_t moves = one.moves();
    commands += one.one_allocation ? entries : moves;
    bytes += moves * one.nest.element_bytes;
  }
  const bool by_engines = way == GpuWay::over_link && bytes >= engine_run_least * commands;
  // Over the link, loops would be one command of a copy engine for each entry, so that pieces are
  // better for them, too.
  return commands > 1 && !by_engines && (way == GpuWay::over_link || !are_loops(nests));
}

/// Returns how many moves of an indexed nest go into one piece.
std::int64_t moves_of_piece(const IndexedNest& one) {
  if (!one.moves_touch()) return 1;
  const std::int64_t bytes = std::max<std::int64_t>(one.nest.element_bytes, 1);
  return std::max<std::int64_t>(piece_bytes_most / bytes, 1);
}

/// Returns whether the nest's entries have the form of the table's: two offsets, and a length in
/// bytes. They are then copied to the table as they are.
bool are_pieces(const IndexedNest& one, std::int64_t moves_most) {
  static_assert(sizeof(Run) == sizeof(IndexedEntry));
  if (one.entries.empty()) return false;
  const bool bytes = one.nest.element_bytes == 1 && one.moves_touch() &&
                     one.nest.source_offset == 0 && one.nest.target_offset == 0;
  if (!bytes) return false;
  std::int64_t most = 0;
  for (const IndexedEntry& entry : one.entries) most = std::max(most, entry.count);
  return most <= moves_most;
}

/// Returns the bytes of a table that pieces take, up to the next line of the GPU's cache.
std::int64_t bytes_of_pieces(std::size_t count) {
  const std::size_t lines = (count * sizeof(Run) + alignment_bytes - 1) / alignment_bytes;
  return static_cast<std::int64_t>(lines * alignment_bytes);
}

/// Returns whether the list's table fits the parameters of its launch.
bool held(const gpu::NestList& list) { return table_bytes(list) <= gpu::held_bytes_max; }

/// Whether a nest repeats one number along runs of the target, so often that a launch of its own
/// does not count. The kernel that converts writes these in vectors.
bool fills(const LoopNest& nest) {
  constexpr std::int64_t bytes_least = 64 << 10;
  const std::int64_t bytes = nest.element_bytes;
  const bool is_number = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  return is_number && nest.rank > 0 && nest.loops[0].source_stride == 0 &&
         nest.loops[0].target_stride == bytes && nest.bytes() >= bytes_least;
}

/// Returns the conversion of numbers of some bytes that leaves them as they are.
Conversion same_numbers(std::int64_t bytes) {
  const NumberKind kind = bytes == 1   ? NumberKind::int8
                          : bytes == 2 ? NumberKind::int16
                          : bytes == 4 ? NumberKind::int32
                                       : NumberKind::int64;
  return {{kind, false}, {kind, false}};
}

}  // namespace

GpuWork::~GpuWork() {
  if (table_ != nullptr) gpus_->release_pinned(table_);
  if (on_gpu_ != nullptr) gpus_->release(on_gpu_device_, on_gpu_);
}

Status GpuWork::enqueue(const GpuStream& stream, const Request& request, GpuWay way) {
  if (Status status = plan(request, way, false); !status) return status;
  // The upload uses a copy engine, and would wait there for earlier commands.
  if (reads_often() && way != GpuWay::past_engines) {
    if (Status status = upload(stream); !status) return status;
  }
  return launch(stream, request.source.address, request.target.address);
}

Status GpuWork::prepare(const GpuStream& stream, const Request& request, GpuWay way) {
  if (Status status = plan(request, way, true); !status) return status;
  return gpu_reads_table() ? upload(stream) : Status{};
}

bool GpuWork::plan_without_table(const Request& request, GpuWay way) {
  may_have_table_ = false;
  const bool planned = plan(request, way, false).ok();
  may_have_table_ = true;
  return planned;
}

std::uintptr_t GpuWork::alignment_of(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment_bytes;
}

bool GpuWork::fits(const std::byte* source, const std::byte* target) const {
  return alignment_of(source) == source_alignment_ && alignment_of(target) == target_alignment_;
}

Status GpuWork::copy_by_engine(const GpuStream& stream, const std::byte* source, std::byte* target,
                               PitchedCopy shape) const {
  const auto too_long = [&](bool at_source) -> std::int64_t {
    const std::int64_t bytes = gpus_->pinned_bytes_from(at_source ? source : target);
    return bytes < span_bytes(shape, at_source) ? bytes : 0;
  };
  while (over_link_) {
    std::int64_t bytes = too_long(true);
    const bool at_source = bytes > 0;
    if (!at_source) bytes = too_long(false);
    if (bytes == 0) break;
    const CutCopy parts = cut_copy(shape, at_source, bytes);
    if (Status s = copy_by_engine(stream, source, target, parts.first); !s) return s;
    source += parts.source_offset;
    target += parts.target_offset;
    shape = parts.rest;
  }
  const bool one_run = shape.rows == 1 && shape.planes == 1;
  return one_run ? gpus_->copy(stream, source, target, shape.width_bytes)
                 : gpus_->copy(stream, source, target, shape);
}

Status GpuWork::launch(const GpuStream& stream, const std::byte* source, std::byte* target) const {
  for (const EngineCopy& copy : engine_copies_) {
    const std::byte* from = source + copy.source_offset;
    std::byte* to = target + copy.target_offset;
    if (Status s = copy_by_engine(stream, from, to, copy.shape); !s) return s;
  }
  if (runs_.count > 0) {
    gpu::RunTable runs = runs_;
    runs.numbers = reinterpret_cast<const std::uint32_t*>(read_table_);
    if (Status s = gpus_->launch(stream, runs, source, target); !s) return s;
  }
  if (pieces_ > 0) {
    const auto* pieces = reinterpret_cast<const Run*>(read_table_);
    if (Status s = gpus_->launch(stream, pieces, pieces_, source, target); !s) return s;
  }
  const std::byte* table = read_table_ + bytes_of_pieces(static_cast<std::size_t>(pieces_));
  for (const gpu::NestList* list : {&lists_.aligned, &lists_.shifted}) {
    if (lists_bytes_ == 0 || list->blocks == 0) continue;
    gpu::NestTable launched = gpu::table_of(*list, table);
    if (held(*list)) launched.on_host = table_ + (table - read_table_);
    if (Status s = gpus_->launch(stream, launched, source, target); !s) return s;
    table += table_bytes(*list);
  }
  const auto* origins = reinterpret_cast<const gpu::NestOrigin*>(table);
  for (const gpu::RepeatedNest& one : repeated_) {
    const gpu::Repeats repeats = gpu::repeats_of(one, origins);
    if (Status s = gpus_->launch(stream, one.plan, repeats, source, target); !s) return s;
  }
  if (Status s = launch_places(stream, source, target); !s) return s;
  for (const gpu::KernelPlan& kernel : plans_) {
    if (Status s = gpus_->launch(stream, kernel, {}, source, target); !s) return s;
  }
  for (const gpu::CastPlan& kernel : casts_) {
    if (Status s = gpus_->launch(stream, kernel, source, target); !s) return s;
  }
  return {};
}

Status GpuWork::launch_places(const GpuStream& stream, const std::byte* source,
                              std::byte* target) const {
  if (places_.lists.empty()) return {};
  const std::byte* table = read_table_ + bytes_before_places();
  for (std::size_t first = 0; first < places_.lists.size(); first += gpu::place_lists_max) {
    const gpu::PlaceLaunch launched = gpu::launch_of(places_, first, table);
    if (Status s = gpus_->launch(stream, launched, source, target); !s) return s;
  }
  return {};
}

Status GpuWork::plan(const Request& request, GpuWay way, bool often) {
  over_link_ = way == GpuWay::over_link;
  engine_copies_.clear();
  plans_.clear();
  casts_.clear();
  runs_ = {};
  pieces_ = 0;
  lists_bytes_ = 0;
  repeated_.clear();
  origins_.clear();
  places_.lists.clear();
  places_.places.clear();
  source_alignment_ = alignment_of(request.source.address);
  target_alignment_ = alignment_of(request.target.address);
  if (request.payload.runs() != nullptr) return plan_runs(*request.payload.runs());
  Request rest = request;
  if (request.payload.indexed().empty()) {
    rest.payload = plan_casts(request);
  } else {
    rest.payload = plan_places(request, often);
  }
  if (Status status = plan_rest(rest, way); !status) return status;
  return write_places();
}

Status GpuWork::plan_runs(const RunList& runs) {
  runs_.count = runs.count();
  runs_.bytes = runs.lengths.empty() ? runs.run_bytes() : 0;
  if (Status status = reserve_table(bytes_of_runs()); !status) return status;
  auto* number = reinterpret_cast<std::uint32_t*>(table_);
  const auto write = [&](std::span<const std::int64_t> numbers, int shift) {
    write_shifted(numbers, shift, number);
    number += numbers.size();
  };
  write(runs.source.places, runs.source.shift);
  write(runs.target.places, runs.target.shift);
  write(runs.lengths, runs.length_shift);
  runs_.length_step = std::int64_t{1} << runs.length_shift;
  runs_.source_offset = runs.source.offset;
  runs_.target_offset = runs.target.offset;
  runs_.source_step = runs.source.step;
  runs_.target_step = runs.target.step;
  return {};
}

std::int64_t GpuWork::bytes_of_runs() const {
  const std::int64_t columns = runs_.bytes == 0 ? 3 : 2;
  return runs_.count * columns * std::int64_t{sizeof(std::uint32_t)};
}

std::int64_t GpuWork::bytes_before_places() const {
  return runs_.count > 0 ? bytes_of_runs()
                         : bytes_of_pieces(static_cast<std::size_t>(pieces_)) + lists_bytes_;
}

std::span<const LoopNest> GpuWork::plan_casts(const Request& request) {
  const auto nests = request.payload.nests();
  const auto is_taken = [](const LoopNest& nest) { return nest.conversion || fills(nest); };
  if (std::none_of(nests.begin(), nests.end(), is_taken)) return nests;
  not_casts_.clear();
  for (const LoopNest& nest : nests) {
    if (is_taken(nest)) {
      LoopNest cast = nest;
      if (!nest.conversion) cast.conversion = same_numbers(nest.element_bytes);
      gpu::plan_casts(cast, request.source.address, request.target.address, casts_);
    } else {
      not_casts_.push_back(nest);
    }
  }
  return not_casts_;
}

std::span<const IndexedNest> GpuWork::plan_places(const Request& request, bool often) {
  not_places_.clear();
  for (const IndexedNest& one : request.payload.indexed()) {
    const bool planned =
        gpu::plan_places(one, request.source.address, request.target.address, often, places_);
    if (!planned) not_places_.push_back(one);
  }
  return not_places_;
}

Status GpuWork::write_places() {
  const auto bytes = static_cast<std::int64_t>(places_.places.size() * sizeof(std::uint32_t));
  if (bytes == 0) return {};
  const std::int64_t begin = bytes_before_places();
  if (Status status = reserve_table(begin + bytes, begin); !status) return status;
  std::memcpy(table_ + begin, places_.places.data(), static_cast<std::size_t>(bytes));
  return {};
}

Status GpuWork::plan_rest(const Request& request, GpuWay way) {
  const auto indexed = request.payload.indexed();
  if (indexed.empty()) {
    const auto nests = request.payload.nests();
    return nests.empty() ? Status{} : plan_nests(nests, request, way);
  }
  if (in_pieces(indexed, way)) return plan_pieces(indexed);
  if (way != GpuWay::over_link && divide(indexed, as_pieces_, as_loops_)) {
    if (Status status = plan_pieces(as_pieces_); !status) return status;
    expanded_.clear();
    expand(as_loops_, expanded_);
    return plan_loops(expanded_, request, way);
  }
  return plan_nests(expanded(request.payload, expanded_).nests(), request, way);
}

Status GpuWork::plan_nests(std::span<const LoopNest> nests, const Request& request, GpuWay way) {
  const bool runs =
      std::all_of(nests.begin(), nests.end(), [](const LoopNest& nest) { return nest.rank == 0; });
  if (runs && nests.size() >= pieces_least) {
    const bool by_engines = way == GpuWay::over_link && long_runs(nests);
    if (!by_engines) return plan_pieces(nests);
  }
  return plan_loops(nests, request, way);
}

Status GpuWork::plan_loops(std::span<const LoopNest> nests, const Request& request, GpuWay way) {
  for_kernels_.clear();
  if (way == GpuWay::over_link || nests.size() < list_least) {
    for (const LoopNest& nest : nests) plan_nest(nest, way);
    nests = for_kernels_;
  }
  if (nests.empty()) return {};
  const std::byte* source = request.source.address;
  const std::byte* target = request.target.address;
  if (gpu::plan_fields(nests, source, target, plans_)) return {};
  if (nests.size() >= list_least) {
    auto left = plan_lists(nests, request);
    if (!left) return left.error();
    nests = *left;
  }
  for (const LoopNest& nest : nests) gpu::plan_kernels(nest, source, target, plans_);
  return {};
}

Result<std::span<const LoopNest>> GpuWork::plan_lists(std::span<const LoopNest> nests,
                                                      const Request& request) {
  const std::byte* source = request.source.address;
  const std::byte* target = request.target.address;
  rest_.clear();
  single_.clear();
  gpu::plan_lists(nests, source, target, lists_, rest_);
  gpu::plan_repeats(rest_, source, target, repeated_, origins_, single_);
  const std::array lists{&lists_.aligned, &lists_.shifted};
  const std::size_t origins_bytes = origins_.size() * sizeof(gpu::NestOrigin);
  auto bytes = static_cast<std::int64_t>(origins_bytes);
  for (const gpu::NestList* list : lists) bytes += table_bytes(*list);
  if (bytes == 0) return std::span<const LoopNest>(single_);
  const std::int64_t begin = bytes_of_pieces(static_cast<std::size_t>(pieces_));
  if (Status status = reserve_table(begin + bytes, begin); !status) return status.error();
  std::byte* at = table_ + begin;
  for (const gpu::NestList* list : lists) {
    write_table(*list, at);
    at += table_bytes(*list);
  }
  if (origins_bytes > 0) std::memcpy(at, origins_.data(), origins_bytes);
  lists_bytes_ = bytes;
  return std::span<const LoopNest>(single_);
}

bool GpuWork::reads_lists() const {
  if (!repeated_.empty()) return true;
  return lists_bytes_ > 0 && !(held(lists_.aligned) && held(lists_.shifted));
}

bool GpuWork::reads_often() const {
  if (reads_lists() || pieces_ >= uploaded_pieces_least) return true;
  if (runs_.count >= uploaded_pieces_least) return runs_.count <= uploaded_runs_most;
  if (places_.places.empty()) return false;
  return places_.places.size() >= uploaded_places_least ||
         std::any_of(places_.lists.begin(), places_.lists.end(),
                     [](const gpu::PlaceList& list) { return list.rank > 0; });
}

Status GpuWork::upload(const GpuStream& stream) {
  const std::int64_t bytes =
      bytes_before_places() +
      static_cast<std::int64_t>(places_.places.size() * sizeof(std::uint32_t));
  if (!reserve_on_gpu(stream.device, bytes)) return {};
  if (Status status = gpus_->copy(stream, table_, on_gpu_, bytes); !status) return status;
  read_table_ = on_gpu_;
  return {};
}

Status GpuWork::reserve_table(std::int64_t bytes, std::int64_t kept) {
  if (!may_have_table_) return Error{ErrorCode::unsupported, "the work needs a table"};
  if (table_bytes_ < bytes) {
    auto table = gpus_->allocate_pinned(bytes);
    if (!table) return table.error();
    if (kept > 0) std::memcpy(*table, table_, static_cast<std::size_t>(kept));
    if (table_ != nullptr) gpus_->release_pinned(table_);
    table_ = *table;
    table_bytes_ = bytes;
  }
  read_table_ = table_;
  return {};
}

Status GpuWork::reserve_on_gpu(int device, std::int64_t bytes) {
  if (on_gpu_bytes_ >= bytes && on_gpu_device_ == device) return {};
  if (on_gpu_ != nullptr) gpus_->release(on_gpu_device_, on_gpu_);
  on_gpu_ = nullptr;
  on_gpu_bytes_ = 0;
  auto made = gpus_->allocate(device, bytes);
  if (!made) return made.error();
  on_gpu_ = *made;
  on_gpu_bytes_ = bytes;
  on_gpu_device_ = device;
  return {};
}

void GpuWork::plan_nest(const LoopNest& nest, GpuWay way) {
  if (nest.bytes() == 0) return;
  const bool by_kernel = way == GpuWay::past_engines ||
                         (way == GpuWay::in_memory && nest.element_bytes <= kernel_run_most);
  if (nest.rank == 0 && !by_kernel) {
    PitchedCopy run;
    run.width_bytes = nest.element_bytes;
    engine_copies_.push_back({nest.source_offset, nest.target_offset, run});
    return;
  }
  const auto shape = way == GpuWay::over_link && nest.element_bytes >= engine_row_least &&
                             outer_count(nest) <= engine_commands_most
                         ? pitched(nest)
                         : std::nullopt;
  if (!shape) {
    for_kernels_.push_back(nest);
    return;
  }
  for (std::int64_t number = 0; number < outer_count(nest); ++number) {
    std::int64_t rest = number;
    EngineCopy copy{nest.source_offset, nest.target_offset, *shape};
    for (int k = 2; k < nest.rank; ++k) {
      const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
      copy.source_offset += rest % loop.extent * loop.source_stride;
      copy.target_offset += rest % loop.extent * loop.target_stride;
      rest /= loop.extent;
    }
    engine_copies_.push_back(copy);
  }
}

Status GpuWork::plan_pieces(std::span<const LoopNest> nests) {
  if (Status status = reserve_table(bytes_of_pieces(nests.size())); !status) return status;
  auto* pieces = reinterpret_cast<Run*>(table_);
  for (std::size_t k = 0; k < nests.size(); ++k) {
    pieces[k] = {nests[k].source_offset, nests[k].target_offset, nests[k].element_bytes};
  }
  pieces_ = static_cast<std::int64_t>(nests.size());
  return {};
}

Status GpuWork::plan_pieces(std::span<const IndexedNest> nests) {
  std::int64_t most_pieces = 0;  // each entry begins one, and each full piece may begin another
  as_they_are_.clear();
  for (const IndexedNest& one : nests) {
    const std::int64_t most = moves_of_piece(one);
    const bool as_it_is = are_pieces(one, most);
    as_they_are_.push_back(as_it_is);
    most_pieces +=
        static_cast<std::int64_t>(one.entries.size()) + (as_it_is ? 0 : one.moves() / most);
  }
  Status reserved = reserve_table(bytes_of_pieces(static_cast<std::size_t>(most_pieces)));
  if (!reserved) return reserved;
  auto* piece = reinterpret_cast<Run*>(table_);
  for (std::size_t k = 0; k < nests.size(); ++k) {
    const IndexedNest& one = nests[k];
    const std::int64_t most = moves_of_piece(one);
    if (as_they_are_[k]) {
      std::memcpy(static_cast<void*>(piece), one.entries.data(), one.entries.size_bytes());
      piece += one.entries.size();
      continue;
    }
    for (const IndexedEntry& entry : one.entries) {
      Run next{one.nest.source_offset + entry.source_offset,
               one.nest.target_offset + entry.target_offset, 0};
      for (std::int64_t left = entry.count; left > 0; left -= most) {
        next.bytes = one.nest.element_bytes * std::min(most, left);
        *piece++ = next;
        next.source_offset += most * one.source_step;
        next.target_offset += most * one.target_step;
      }
    }
  }
  pieces_ = piece - reinterpret_cast<const Run*>(table_);
  return {};
}

}  // namespace tranship
