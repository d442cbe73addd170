#include "gpu/kernels/cast_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/check.hpp"
#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {
namespace {

/// Most numbers of a box; of one that is moved in runs, more if they are short, up to so many bytes
/// of the side that has fewer.
constexpr std::int64_t box_numbers_max = 4096;
constexpr std::int64_t box_bytes_max = 16384;
/// The same for boxes that pass through shared memory, in bytes of the target.
constexpr std::int64_t shared_numbers_max = 8192;
constexpr std::int64_t shared_box_bytes_max = 32768;
/// Least numbers of a box, and blocks from which on a large GPU is busy.
constexpr std::int64_t box_numbers_min = 1024;
constexpr std::int64_t cast_blocks_wanted = 264;
/// Distance of numbers in the source, in bytes, from which on each costs a sector of its own.
constexpr std::int64_t far_bytes = 32;
/// Bytes of a source run that neighbouring threads read.
constexpr std::int64_t run_bytes_wanted = 32;
/// Most blocks of a launch, and most boxes along a loop that a Divisor divides.
constexpr std::int64_t blocks_max = std::int64_t{1} << 31;

bool both_complex(const Conversion& conversion) {
  return is_complex(conversion.from.kind) && is_complex(conversion.to.kind);
}

/// Returns the bytes between numbers that follow each other in the source; parts of numbers if both
/// sides are complex.
std::int64_t source_step(const Conversion& conversion) {
  return bytes_of(both_complex(conversion) ? part_of(conversion.from.kind) : conversion.from.kind);
}

std::int64_t target_step(const Conversion& conversion) {
  return bytes_of(both_complex(conversion) ? part_of(conversion.to.kind) : conversion.to.kind);
}

/// Returns the nest's loops, of which the numbers of an element, or their parts, are the first.
NormalNest numbers_of(const LoopNest& nest) {
  NormalNest normal = normalise(nest);
  const Loop numbers{nest.element_bytes / target_step(nest.conversion),
                     source_step(nest.conversion), target_step(nest.conversion)};
  if (numbers.extent > 1) normal.loops.insert(normal.loops.begin(), numbers);
  return normal;
}

/// Makes the plan of some loops.
class CastPlanner {
 public:
  CastPlanner(const Conversion& conversion, const std::byte* source, const std::byte* target)
      : source_(source),
        target_(target),
        source_step_(source_step(conversion)),
        target_step_(target_step(conversion)) {
    plan_.from = part_of(conversion.from.kind);
    plan_.to = part_of(conversion.to.kind);
    plan_.from_swapped = conversion.from.big_endian;
    plan_.to_swapped = conversion.to.big_endian;
    plan_.either_part =
        is_complex(conversion.from.kind) && conversion.to.kind == NumberKind::boolean;
    plan_.target_bytes = static_cast<std::int32_t>(target_step_);
  }

  CastPlan plan(const Loop* loops, std::size_t count, std::int64_t source_offset,
                std::int64_t target_offset) {
    plan_.source_offset = source_offset;
    plan_.target_offset = target_offset;
    plan_.rank = static_cast<std::int32_t>(count);
    std::copy(loops, loops + count, plan_.loops);
    find_ways();
    std::int64_t numbers = 1;
    for (int k = 0; k < plan_.rank; ++k) numbers *= plan_.loops[k].extent;
    std::int64_t most = std::clamp(numbers / cast_blocks_wanted, box_numbers_min, largest_box());
    do {
      choose_box(most);
      plan_walks();
      most /= 2;
    } while (plan_.shared_bytes > shared_bytes_max);
    count_boxes();
    return plan_;
  }

 private:
  /// Decides whether boxes pass through shared memory, and whether numbers are taken in runs.
  void find_ways() {
    for (int k = 0; k < plan_.rank; ++k) in_source_[k] = k;
    // A loop that reads the same number again is no run of the source.
    const auto distance = [&](int k) {
      const std::int64_t stride = std::abs(plan_.loops[k].source_stride);
      return stride == 0 ? std::numeric_limits<std::int64_t>::max() : stride;
    };
    std::stable_sort(in_source_, in_source_ + plan_.rank,
                     [&](int a, int b) { return distance(a) < distance(b); });
    run_loop_ = plan_.rank > 0 ? in_source_[0] : 0;
    shared_ = run_loop_ != 0 && std::abs(plan_.loops[0].source_stride) >= far_bytes &&
              plan_.loops[run_loop_].source_stride != 0;
    if (!shared_) run_loop_ = 0;
    std::int64_t source_bits = address_bits(source_, plan_.source_offset);
    std::int64_t target_bits = address_bits(target_, plan_.target_offset);
    for (int k = 0; k < plan_.rank; ++k) {
      if (k != run_loop_) source_bits |= std::abs(plan_.loops[k].source_stride);
      if (k != 0) target_bits |= plan_.loops[k].target_stride;
    }
    const bool source_runs = plan_.rank > 0 && plan_.loops[run_loop_].source_stride == source_step_;
    const bool target_runs = plan_.rank > 0 && plan_.loops[0].target_stride == target_step_;
    if (!source_runs && plan_.rank > 0) {
      source_bits |= std::abs(plan_.loops[run_loop_].source_stride);
    }
    if (!target_runs && plan_.rank > 0) target_bits |= plan_.loops[0].target_stride;
    const std::int64_t from_bytes = bytes_of(plan_.from);
    plan_.source_aligned = common_bytes(source_bits) >= from_bytes && !plan_.either_part;
    repeats_ = plan_.rank > 0 && !shared_ && plan_.loops[0].source_stride == 0;
    const auto has_runs = [&](std::int64_t run) {
      const bool follows = source_runs && source_step_ == from_bytes &&
                           common_bytes(source_bits) >= vector_bytes(from_bytes, run);
      const bool read = follows || (repeats_ && plan_.source_aligned);
      const bool written =
          target_runs && common_bytes(target_bits) >= vector_bytes(target_step_, run);
      return read && (shared_ || written);
    };
    const bool is_short = !shared_ && from_bytes <= 2 && target_step_ <= 2 && plan_.rank > 0 &&
                          plan_.loops[run_loop_].extent % cast_long_run == 0;
    run_ = is_short && has_runs(cast_long_run) ? cast_long_run : has_runs(cast_run) ? cast_run : 1;
    target_vector_ = common_bytes(target_bits);
    if (!shared_ || !target_runs) target_vector_ = std::min(target_vector_, target_step_);
  }

  std::int64_t largest_box() const {
    if (shared_) return std::min(shared_numbers_max, shared_box_bytes_max / target_step_);
    if (run_ == 1) return box_numbers_max;
    return std::max(box_numbers_max, box_bytes_max / std::min(source_step_, target_step_));
  }

  static std::int64_t vector_bytes(std::int64_t bytes, std::int64_t run) {
    return std::min(bytes * run, vector_bytes_max);
  }

  bool is_full(int loop) const { return plan_.box[loop] >= plan_.loops[loop].extent; }

  /// Returns the first loop, in one side's order, of which the box has not all; -1: none may grow.
  int next_loop(bool in_source) const {
    int in_box = 0;
    for (int k = 0; k < plan_.rank; ++k) in_box += plan_.box[k] > 1 ? 1 : 0;
    for (int k = 0; k < plan_.rank; ++k) {
      const int loop = in_source ? in_source_[k] : k;
      if (is_full(loop)) continue;
      return plan_.box[loop] > 1 || in_box < box_loops_max ? loop : -1;
    }
    return -1;
  }

  /// Chooses a box of up to `most` numbers: along both sides' fastest loops in turn if it passes
  /// through shared memory, else along the target's.
  void choose_box(std::int64_t most) {
    std::fill_n(plan_.box, plan_.rank, 1);
    std::int64_t count = 1;
    for (bool in_source = shared_;; in_source = shared_ && !in_source) {
      const int loop = next_loop(in_source);
      if (loop < 0) break;
      const std::int64_t others = count / plan_.box[loop];
      const std::int64_t wanted =
          std::min({std::int64_t{2} * plan_.box[loop], plan_.loops[loop].extent, most / others});
      if (wanted == plan_.box[loop]) break;
      plan_.box[loop] = static_cast<std::int32_t>(wanted);
      count = others * wanted;
    }
    for (int k = 0; k < plan_.rank; ++k) {
      if (is_full(k) || plan_.box[k] == 1) continue;
      // Boxes of about the same extent, which begin at whole vectors.
      const std::int64_t extent = plan_.loops[k].extent;
      const std::int64_t even = ceil_divide(extent, ceil_divide(extent, plan_.box[k]));
      const bool has_vectors = k == 0 || k == run_loop_;
      const std::int64_t step = !has_vectors ? 1 : plan_.box[k] >= 64 ? 32 : 4;
      const std::int64_t rounded = plan_.box[k] < step ? plan_.box[k] : round_up(even, step);
      plan_.box[k] = static_cast<std::int32_t>(std::min<std::int64_t>(rounded, plan_.box[k]));
    }
    // A box that does not begin at whole runs is not read in vectors.
    const auto begins = [&](int run) {
      return is_full(run_loop_) || plan_.box[run_loop_] % run == 0;
    };
    const int run = begins(run_) ? run_ : begins(cast_run) ? std::min(run_, cast_run) : 1;
    plan_.source_vectors = run > 1 && !repeats_;
    plan_.run = shared_ ? std::max(run, cast_run) : run;
    plan_.way = shared_ ? CastWay::shared : run > 1 ? CastWay::runs : CastWay::singles;
    plan_.box_rank = 0;
    for (int k = 0; k < plan_.rank; ++k) {
      if (plan_.box[k] > 1) in_box_[plan_.box_rank++] = k;
    }
  }

  /// Returns the number of a loop among those of the box; 0 if it is not one of them.
  std::int32_t field_of(int loop) const {
    const auto* const end = in_box_ + plan_.box_rank;
    const auto* const found = std::find(in_box_, end, loop);
    return found == end ? 0 : static_cast<std::int32_t>(found - in_box_);
  }

  /// Returns how many neighbours along the target's runs a thread reads together.
  std::int64_t rows_of_patch() const {
    if (!shared_) return 1;
    return held_in_runs(is_wide_cast(plan_.from, plan_.to)) / cast_run;
  }

  /// Appends a step along `loop`, of `extent` times `unit` indices.
  void add_step(CastWalk& walk, int loop, std::int64_t extent, std::int64_t unit) const {
    if (extent == 1) return;
    CastStep& step = walk.steps[walk.rank++];
    step.extent = make_divisor(extent);
    step.source_stride = plan_.loops[loop].source_stride * unit;
    step.target_stride = plan_.loops[loop].target_stride * unit;
    step.shared_stride = static_cast<std::int32_t>(shared_strides_[loop] * unit);
    step.indices = static_cast<std::uint64_t>(unit) << (16 * field_of(loop));
    walk.items *= static_cast<std::int32_t>(extent);
  }

  /// Returns the bytes of one access to the target when it is written from shared memory: what its
  /// alignment allows, and the rows there.
  std::int64_t vector_from_shared() const {
    // Rows that lie off each other by 16 bytes keep the readers of bytes on the same banks.
    const std::int64_t most = std::max<std::int64_t>(source_step_ == 1 ? 8 : 16, target_step_);
    std::int64_t vector = std::min(target_vector_, most);
    const std::int64_t row = plan_.box[0] * target_step_;
    if (!is_full(0)) vector = std::min(vector, common_bytes(row));
    // Rows of a few vectors are not padded to whole ones.
    while (vector > target_step_ && row % vector != 0 && row < 4 * vector) vector /= 2;
    return vector;
  }

  /// Lays the box out in shared memory: in the target's order, with a gap after each of its rows.
  void place_in_shared() {
    plan_.shared_bytes = 0;
    plan_.target_vector = static_cast<std::int32_t>(target_vector_);
    if (!shared_) return;
    const std::int64_t vector = vector_from_shared();
    plan_.target_vector = static_cast<std::int32_t>(vector);
    std::int64_t stride = target_step_;
    for (int k = 0; k < plan_.rank; ++k) {
      shared_strides_[k] = stride;
      stride *= plan_.box[k];
      if (k > 0 || plan_.box[k] == 1) continue;
      const std::int64_t aligned = std::max(vector, common_bytes(rows_of_patch() * target_step_));
      stride = round_up(stride, aligned);
      if (stride % 64 == 0) stride += std::max<std::int64_t>(aligned, 4);
    }
    CHECK(stride < std::numeric_limits<std::int32_t>::max(), "a box is larger than shared memory");
    plan_.shared_bytes = static_cast<std::int32_t>(stride);
    plan_.shared_run_stride = static_cast<std::int32_t>(shared_strides_[run_loop_]);
  }

  void plan_walks() {
    place_in_shared();
    plan_.read = {};
    plan_.write = {};
    plan_.last_items = 0;
    plan_.last_run = 1;
    plan_.whole = true;
    plan_.read.run_loop = field_of(run_loop_);
    if (plan_.rank == 0) return;
    const auto box = [&](int loop) { return std::int64_t{plan_.box[loop]}; };
    std::int64_t count = 1;
    for (int k = 0; k < plan_.rank; ++k) count *= box(k);
    const std::int64_t run = plan_.run;
    const std::int64_t runs = ceil_divide(box(run_loop_), run);
    const std::int64_t together =
        shared_ ? std::clamp<std::int64_t>(run_bytes_wanted / (source_step_ * run), 1, runs) : runs;
    plan_.source_run_stride = plan_.loops[run_loop_].source_stride;
    plan_.source_row_stride = plan_.loops[0].source_stride;
    const std::int64_t rows = rows_of_patch();
    add_step(plan_.read, run_loop_, together, run);
    for (int k = 0; k < plan_.rank; ++k) {
      const std::int64_t unit = k == 0 ? rows : 1;
      if (k != run_loop_) add_step(plan_.read, k, ceil_divide(box(k), unit), unit);
    }
    add_step(plan_.read, run_loop_, ceil_divide(runs, together), together * run);
    plan_.whole = plan_.read.items * run * rows == count;
    make_regular(plan_.read);
    if (!shared_) return plan_last_loop();
    const std::int64_t numbers = std::max<std::int64_t>(plan_.target_vector / target_step_, 1);
    add_step(plan_.write, 0, ceil_divide(box(0), numbers), numbers);
    for (int k = 1; k < plan_.rank; ++k) add_step(plan_.write, k, box(k), 1);
    plan_.whole = plan_.whole && plan_.write.items * numbers == count;
    make_regular(plan_.write);
  }

  void plan_last_loop() {
    if (plan_.read.rank == 0 || !plan_.whole) return;
    const CastStep& last = plan_.read.steps[plan_.read.rank - 1];
    plan_.last_items = plan_.read.items / static_cast<std::int32_t>(last.extent.divisor);
    plan_.last_run = plan_.box_rank == 1 ? plan_.run : 1;
  }

  /// Decides whether the items of a thread follow each other along the last step.
  static void make_regular(CastWalk& walk) {
    if (walk.rank == 0) return;
    const CastStep& last = walk.steps[walk.rank - 1];
    const std::int64_t inner = walk.items / static_cast<std::int64_t>(last.extent.divisor);
    walk.regular = kernel_threads % inner == 0;
    const std::int64_t steps = kernel_threads / inner;
    walk.advance.source_stride = steps * last.source_stride;
    walk.advance.target_stride = steps * last.target_stride;
    walk.advance.shared_stride = static_cast<std::int32_t>(steps * last.shared_stride);
    walk.advance.indices = static_cast<std::uint64_t>(steps) * last.indices;
  }

  void count_boxes() {
    plan_.blocks = 1;
    for (int k = 0; k < plan_.rank; ++k) {
      const std::int64_t boxes = ceil_divide(plan_.loops[k].extent, plan_.box[k]);
      CHECK(boxes < blocks_max, "a loop has more boxes than a kernel counts");
      plan_.boxes[k] = make_divisor(boxes);
      plan_.blocks *= boxes;
    }
  }

  const std::byte* const source_;
  const std::byte* const target_;
  const std::int64_t source_step_;
  const std::int64_t target_step_;
  int in_source_[kernel_loops_max] = {};  // loops, the source's fastest first
  int in_box_[box_loops_max] = {};        // loops of the box, the target\'s fastest first
  int run_loop_ = 0;                      // along which the source's numbers are read in runs
  bool shared_ = false;                   // boxes pass through shared memory
  bool repeats_ = false;                  // the runs of the target repeat one number of the source
  int run_ = 1;                           // numbers of a run that alignment allows
  std::int64_t target_vector_ = 1;        // bytes of one access that the target's alignment allows
  std::int64_t shared_strides_[kernel_loops_max] = {};
  CastPlan plan_;
};

/// Appends the plan of a nest's innermost loops, or one for each index of its outermost one.
void append(const Conversion& conversion, const NormalNest& normal, std::size_t loops,
            std::int64_t source_offset, std::int64_t target_offset, const std::byte* source,
            const std::byte* target, std::vector<CastPlan>& plans) {
  if (loops > kernel_loops_max) {
    const Loop& outer = normal.loops[loops - 1];
    for (std::int64_t k = 0; k < outer.extent; ++k) {
      append(conversion, normal, loops - 1, source_offset + k * outer.source_stride,
             target_offset + k * outer.target_stride, source, target, plans);
    }
    return;
  }
  CastPlan plan = CastPlanner(conversion, source, target)
                      .plan(normal.loops.data(), loops, source_offset, target_offset);
  if (plan.blocks < blocks_max) {
    plans.push_back(plan);
    return;
  }
  // A launch has too many blocks: the outermost loop is cut in two.
  const Loop& last = plan.loops[plan.rank - 1];
  NormalNest first = normal;
  NormalNest second = normal;
  const std::int64_t half = last.extent / 2;
  first.loops[loops - 1].extent = half;
  second.loops[loops - 1].extent = last.extent - half;
  append(conversion, first, loops, source_offset, target_offset, source, target, plans);
  append(conversion, second, loops, source_offset + half * last.source_stride,
         target_offset + half * last.target_stride, source, target, plans);
}

}  // namespace

void plan_casts(const LoopNest& nest, const std::byte* source, const std::byte* target,
                std::vector<CastPlan>& plans) {
  if (nest.bytes() == 0) return;
  const NormalNest normal = numbers_of(nest);
  append(nest.conversion, normal, normal.loops.size(), normal.source_offset, normal.target_offset,
         source, target, plans);
}

}  // namespace tranship::gpu
