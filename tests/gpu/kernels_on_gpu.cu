// Runs the conversion kernels inside one GPU, without the engine, and compares every element with a
// plain walk of the nest; tools/gpu-check runs it under compute-sanitizer as well. Prints a table
// of times beside cudaMemcpy, and writes it as JSON lines to the file named by the first argument
// (/dev/null: none); a second one runs only cases whose names contain it.
// Further ones are settings: bytes=N to move, and of KernelTuning box_bytes=N, direct_box_bytes=N,
// group_boxes=N, shifted_run_bytes=N, shifted_rows=N, band_nests=N.
// Build:
//   nvcc -std=c++20 -O3 -arch=sm_90 --expt-relaxed-constexpr -Iinclude -Isrc
//   tests/gpu/kernels_on_gpu.cu
//     src/gpu/kernels/*.cu src/gpu/kernels/*.cpp src/base/error.cpp src/data/indexed_nest.cpp -o
//     kernels
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/launch.hpp"
#include "gpu/kernels/nest_list.hpp"

namespace tranship::gpu {
namespace {

std::int64_t bytes_wanted = std::int64_t{512} << 20;
/// Bytes of each array: room for sizes that round up and for arrays that begin misaligned.
std::int64_t bytes_room() { return bytes_wanted + bytes_wanted / 8 + (std::int64_t{1} << 20); }
/// Number of timed runs. Sizes below 64 MiB are for tools that check each access; their times mean
/// nothing.
std::size_t repeats() { return bytes_wanted < std::int64_t{64} << 20 ? 1 : 10; }

void require(int error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}

struct Case {
  std::string name;
  LoopNest nest;
  std::int64_t source_shift = 0;
  std::vector<LoopNest> others;  ///< moved together with the first
  /// Attainable fraction of the copy's rate: below 1 where sectors of 32 bytes make memory move
  /// more bytes than the case needs.
  double attainable = 1;
};

__global__ void fill(std::uint64_t* words, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count; i += step) {
    std::uint64_t value = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9u;
    words[i] = value ^ (value >> 32);
  }
}

/// Counts the elements of the target that differ from a naive walk of the nest.
__global__ void compare(const __grid_constant__ LoopNest nest, std::int64_t count,
                        const std::byte* source, const std::byte* target,
                        unsigned long long* wrong) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count; i += step) {
    std::int64_t rest = i, from = nest.source_offset, to = nest.target_offset;
    const Loop* loops = reinterpret_cast<const Loop*>(&nest.loops);
    for (int k = 0; k < nest.rank; ++k) {
      const std::int64_t index = rest % loops[k].extent;
      rest /= loops[k].extent;
      from += index * loops[k].source_stride;
      to += index * loops[k].target_stride;
    }
    bool same = true;
    for (std::int64_t b = 0; b < nest.element_bytes; ++b) {
      same = same && source[from + b] == target[to + b];
    }
    if (!same) atomicAdd(wrong, 1ull);
  }
}

__global__ void compare_pieces(const Run* pieces, const std::byte* source, const std::byte* target,
                               unsigned long long* wrong) {
  const Run piece = pieces[blockIdx.x];
  for (std::int64_t i = threadIdx.x; i < piece.bytes; i += blockDim.x) {
    if (source[piece.source_offset + i] != target[piece.target_offset + i]) atomicAdd(wrong, 1ull);
  }
}

/// Runs cases in the GPU's memory, and writes a line of the table and of the file for each.
class Bench {
 public:
  Bench(const char* path, std::string only, const KernelTuning& tuning)
      : only_(std::move(only)), tuning_(tuning) {
    require(cudaMalloc(&source_, bytes_room()), "no memory for the source");
    require(cudaMalloc(&target_, bytes_room()), "no memory for the target");
    require(cudaMalloc(&wrong_, sizeof(*wrong_)), "no memory for a counter");
    require(cudaStreamCreate(&stream_), "no stream");
    require(cudaEventCreate(&begin_), "no event");
    require(cudaEventCreate(&end_), "no event");
    fill<<<1024, 256, 0, stream_>>>(reinterpret_cast<std::uint64_t*>(source_), bytes_room() / 8);
    require(cudaGetLastError(), "the source cannot be filled");
    if (path != nullptr) lines_ = std::fopen(path, "w");
    if (path != nullptr && lines_ == nullptr) {
      std::fprintf(stderr, "%s cannot be written; name another file\n", path);
      std::exit(1);
    }
  }

  /// Returns the median seconds of the work that `work` submits to the stream.
  double median_s(const std::function<int()>& work) {
    std::vector<double> seconds;
    for (int k = -2; k < static_cast<int>(repeats()); ++k) {
      require(cudaEventRecord(begin_, stream_), "an event cannot be recorded");
      require(work(), "a launch failed");
      require(cudaEventRecord(end_, stream_), "an event cannot be recorded");
      require(cudaEventSynchronize(end_), "a kernel failed");
      float milliseconds = 0;
      require(cudaEventElapsedTime(&milliseconds, begin_, end_), "no time was measured");
      if (k >= 0) seconds.push_back(milliseconds * 1e-3);
    }
    std::sort(seconds.begin(), seconds.end());
    return (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
  }

  double copy_s(std::int64_t bytes) {
    return median_s([&] {
      return cudaMemcpyAsync(target_, source_, static_cast<std::size_t>(bytes),
                             cudaMemcpyDeviceToDevice, stream_);
    });
  }

  void copy() {
    copy_rate_ = 2 * static_cast<double>(bytes_wanted) / copy_s(bytes_wanted);
    report("copy", "cudaMemcpyAsync", bytes_wanted, copy_s(bytes_wanted), copy_rate_, 0);
  }

  void run(const Case& one) {
    if (one.name.find(only_) == std::string::npos) return;
    const std::byte* source = source_ + one.source_shift;
    std::vector<KernelPlan> plans;
    std::vector<LoopNest> nests = {one.nest};
    nests.insert(nests.end(), one.others.begin(), one.others.end());
    plan_kernels(nests, source, target_, plans, tuning_);
    poison();
    const double seconds = median_s([&] {
      for (const KernelPlan& plan : plans) {
        const int error = launch(plan, {}, source, target_, stream_);
        if (error != cudaSuccess) return error;
      }
      return 0;
    });
    const std::int64_t bytes = compare_all(nests, source);
    const std::string more =
        plans.size() > 1 ? " and " + std::to_string(plans.size() - 1) + " more" : "";
    report(one.name, explain(plans[0]) + more, bytes, seconds, copy_rate_ * one.attainable,
           count_wrong());
  }

  void run_pieces(const std::string& name, std::int64_t count, std::int64_t piece_bytes,
                  std::int64_t shift) {
    piece_bytes = std::min(piece_bytes, bytes_wanted / 8);
    count = std::min(count, bytes_wanted / piece_bytes);
    if (name.find(only_) == std::string::npos) return;
    Run* pieces = nullptr;
    require(cudaMallocHost(&pieces, static_cast<std::size_t>(count) * sizeof(Run)),
            "no pinned memory for the list");
    for (std::int64_t k = 0; k < count; ++k) {
      // Multiplication by a prime, modulo `count`, scatters the pieces of the source.
      pieces[k] = {k * 7919 % count * piece_bytes + shift, k * piece_bytes, piece_bytes};
    }
    poison();
    const double seconds =
        median_s([&] { return launch_pieces(pieces, count, source_, target_, stream_); });
    compare_pieces<<<static_cast<unsigned>(count), 256, 0, stream_>>>(pieces, source_, target_,
                                                                      wrong_);
    const std::uint64_t wrong = count_wrong();
    const std::int64_t bytes = count * piece_bytes;
    report(name, "pieces", bytes, seconds, 2 * static_cast<double>(bytes) / copy_s(bytes), wrong);
    require(cudaFreeHost(pieces), "the list cannot be freed");
  }

  /// Runs nests with one launch for each list; the tables of the lists lie on the GPU.
  void run_list(const std::string& name, const std::vector<LoopNest>& nests) {
    if (name.find(only_) == std::string::npos) return;
    NestLists lists;
    std::vector<LoopNest> rest;
    plan_lists(nests, source_, target_, lists, rest, tuning_);
    std::vector<NestTable> tables;
    std::vector<std::byte*> memory;
    for (const NestList* list : {&lists.aligned, &lists.shifted}) {
      const auto bytes = static_cast<std::size_t>(table_bytes(*list));
      if (bytes == 0) continue;
      std::vector<std::int64_t> words(bytes / sizeof(std::int64_t));
      write_table(*list, reinterpret_cast<std::byte*>(words.data()));
      require(cudaMalloc(&memory.emplace_back(), bytes), "no memory for a table");
      require(cudaMemcpy(memory.back(), words.data(), bytes, cudaMemcpyDefault), "no table");
      tables.push_back(table_of(*list, memory.back()));
    }
    poison();
    const double seconds = median_s([&] {
      int error = 0;
      for (const NestTable& table : tables) {
        error = std::max(error, launch_list(table, source_, target_, stream_));
      }
      return error;
    });
    const std::int64_t bytes = compare_all(nests, source_);
    const std::string kernel = std::to_string(lists.aligned.plans.size()) + " shapes, and " +
                               std::to_string(lists.shifted.plans.size()) + " shifted";
    report(name, kernel, bytes, seconds, 2 * static_cast<double>(bytes) / copy_s(bytes),
           count_wrong() + rest.size());
    for (std::byte* table : memory) require(cudaFree(table), "a table cannot be freed");
  }

  /// Runs nests of one shape with one launch; the table of their origins lies on the GPU.
  void run_repeats(const std::string& name, const std::vector<LoopNest>& nests) {
    if (name.find(only_) == std::string::npos) return;
    std::vector<RepeatedNest> repeated;
    std::vector<NestOrigin> origins;
    std::vector<LoopNest> rest;
    plan_repeats(nests, source_, target_, repeated, origins, rest, tuning_);
    const std::size_t table_bytes = origins.size() * sizeof(NestOrigin);
    NestOrigin* table = nullptr;
    require(cudaMalloc(&table, table_bytes + 1), "no memory for a table");
    require(cudaMemcpy(table, origins.data(), table_bytes, cudaMemcpyDefault), "no table");
    poison();
    const double seconds = median_s([&] {
      int error = 0;
      for (const RepeatedNest& one : repeated) {
        const Repeats repeats = repeats_of(one, table);
        error = std::max(error, launch(one.plan, repeats, source_, target_, stream_));
      }
      return error;
    });
    const std::int64_t bytes = compare_all(nests, source_);
    const std::string kernel = repeated.empty() ? "none" : explain(repeated[0].plan);
    report(name, kernel, bytes, seconds, 2 * static_cast<double>(bytes) / copy_s(bytes),
           count_wrong() + rest.size());
    require(cudaFree(table), "a table cannot be freed");
  }

  /// Returns the number of wrong cases, or 1 if the file cannot be closed; 0 is success.
  int finish() {
    std::sort(fractions_.begin(), fractions_.end());
    if (!fractions_.empty()) {
      std::printf("fraction of copy: least %.3f, median %.3f, %zu cases\n", fractions_[0],
                  fractions_[fractions_.size() / 2], fractions_.size());
    }
    if (lines_ != nullptr && std::fclose(lines_) != 0) return 1;
    return wrong_cases_;
  }

 private:
  void poison() {
    require(cudaMemsetAsync(target_, 0x5a, bytes_room(), stream_), "the target cannot be poisoned");
    require(cudaMemsetAsync(wrong_, 0, sizeof(*wrong_), stream_), "a counter cannot be cleared");
  }

  /// Starts the count of wrong elements; returns the number of bytes that the nests move.
  std::int64_t compare_all(const std::vector<LoopNest>& nests, const std::byte* source) {
    std::int64_t bytes = 0;
    for (const LoopNest& nest : nests) {
      bytes += nest.bytes();
      compare<<<2048, 256, 0, stream_>>>(nest, nest.bytes() / nest.element_bytes, source, target_,
                                         wrong_);
      require(cudaGetLastError(), "a comparison cannot be launched");
    }
    return bytes;
  }

  std::uint64_t count_wrong() {
    require(cudaGetLastError(), "a comparison cannot be launched");
    unsigned long long wrong = 0;
    require(cudaMemcpyAsync(&wrong, wrong_, sizeof(wrong), cudaMemcpyDefault, stream_),
            "a counter cannot be read");
    require(cudaStreamSynchronize(stream_), "a comparison failed");
    return wrong;
  }

  void report(const std::string& name, const std::string& kernel, std::int64_t bytes,
              double seconds, double copy_rate, std::uint64_t wrong) {
    if (wrong != 0) {
      std::printf("%-44s WRONG: %llu elements (%s)\n", name.c_str(),
                  static_cast<unsigned long long>(wrong), kernel.c_str());
      ++wrong_cases_;
      return;
    }
    const double rate = 2 * static_cast<double>(bytes) / seconds;
    const double fraction = rate / copy_rate;  // of the attainable rate
    if (name != "copy") fractions_.push_back(fraction);
    std::printf("%-44s %8.0f GB/s %6.3f  %s\n", name.c_str(), rate / 1e9, fraction, kernel.c_str());
    std::fflush(stdout);
    if (lines_ == nullptr || name == "copy") return;
    std::fprintf(lines_,
                 "{\"bench\": \"kernels\", \"case\": \"%s\", \"variant\": \"kernel\", "
                 "\"kernel\": \"%s\", \"bytes\": %lld, \"median_s\": %.9f, "
                 "\"gbps\": %.1f, \"fraction\": %.4f, \"checked\": true}\n",
                 name.c_str(), kernel.c_str(), static_cast<long long>(bytes), seconds, rate / 1e9,
                 fraction);
  }

  std::string only_;
  KernelTuning tuning_;
  std::byte* source_ = nullptr;
  std::byte* target_ = nullptr;
  unsigned long long* wrong_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::FILE* lines_ = nullptr;
  double copy_rate_ = 0;
  int wrong_cases_ = 0;
  std::vector<double> fractions_;
};

/// Returns a dense nest; `source` and `target` list the loops by number, fastest first.
Case dense(const std::string& name, std::int64_t element_bytes,
           const std::vector<std::int64_t>& extents, const std::vector<int>& source,
           const std::vector<int>& target) {
  Case one;
  one.name = name;
  one.nest.element_bytes = element_bytes;
  one.nest.rank = static_cast<int>(extents.size());
  std::int64_t source_stride = element_bytes, target_stride = element_bytes;
  for (std::size_t k = 0; k < extents.size(); ++k) one.nest.loops[k].extent = extents[k];
  for (std::size_t k = 0; k < extents.size(); ++k) {
    const auto from = static_cast<std::size_t>(source[k]), to = static_cast<std::size_t>(target[k]);
    one.nest.loops[from].source_stride = source_stride;
    one.nest.loops[to].target_stride = target_stride;
    source_stride *= extents[from];
    target_stride *= extents[to];
  }
  return one;
}

void transposes(Bench& bench) {
  for (const std::int64_t bytes : {1, 2, 4, 8, 16}) {
    const std::int64_t rows = 8192;
    const std::int64_t columns = bytes_wanted / bytes / rows;
    const std::string element = std::to_string(bytes) + " B";
    bench.run(dense("transpose of " + element, bytes, {rows, columns}, {0, 1}, {1, 0}));
    bench.run(dense("transpose of " + element + ", odd extents", bytes, {8001, columns - 37},
                    {0, 1}, {1, 0}));
    bench.run(dense("transpose of " + element + ", extents by 16 B", bytes, {8016, columns - 48},
                    {0, 1}, {1, 0}));
  }
  std::vector<int> order = {0, 1, 2};
  do {
    for (const std::int64_t bytes : {2, 4, 8}) {
      const std::string name = "permutation " + std::to_string(order[0]) +
                               std::to_string(order[1]) + std::to_string(order[2]) + " of " +
                               std::to_string(bytes) + " B";
      const std::int64_t slow = bytes_wanted / bytes / (512 * 512);
      bench.run(dense(name + ", powers of two", bytes, {512, 512, slow}, {0, 1, 2}, order));
      bench.run(dense(name + ", 400 x 500 x n", bytes,
                      {400, 500, bytes_wanted / bytes / (400 * 500) / 8 * 8}, {0, 1, 2}, order));
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

void records(Bench& bench) {
  const auto counted = [&](std::int64_t fields, std::int64_t bytes, std::int64_t count,
                           const std::string& type) {
    const std::string what = std::to_string(fields) + " x " + type;
    bench.run(dense("records to columns, " + what, bytes, {fields, count}, {0, 1}, {1, 0}));
    bench.run(dense("columns to records, " + what, bytes, {fields, count}, {1, 0}, {0, 1}));
  };
  const auto both = [&](std::int64_t fields, std::int64_t bytes, const std::string& type) {
    counted(fields, bytes, bytes_wanted / bytes / fields / 1024 * 1024, type);
  };
  for (std::int64_t fields = 2; fields <= 16; ++fields) both(fields, 4, "f32");
  // With an odd number of records, columns begin misaligned.
  const auto odd = [&](std::int64_t fields, std::int64_t bytes, const std::string& type) {
    counted(fields, bytes, (bytes_wanted / bytes / fields - 1) | 1, type + ", odd");
  };
  odd(2, 4, "f32");
  odd(3, 4, "f32");
  odd(5, 4, "f32");
  odd(8, 4, "f32");
  odd(3, 2, "f16");
  odd(3, 8, "f64");
  both(3, 8, "f64");
  both(3, 2, "f16");
  both(4, 2, "f16");
  both(6, 2, "f16");
  both(3, 1, "u8");
  both(4, 1, "u8");
  both(8, 1, "u8");
  for (const std::int64_t bytes : {2, 4}) {
    for (const std::int64_t channels : {3, 16, 64, 256}) {
      const std::int64_t images =
          std::max<std::int64_t>(1, bytes_wanted / bytes / channels / (224 * 224));
      const std::string what = std::to_string(channels) + (bytes == 2 ? " x f16" : " x f32");
      const std::vector<std::int64_t> extents = {channels, 224 * 224, images};
      bench.run(dense("NHWC to NCHW, " + what, bytes, extents, {0, 1, 2}, {1, 0, 2}));
      bench.run(dense("NCHW to NHWC, " + what, bytes, extents, {1, 0, 2}, {0, 1, 2}));
    }
  }
}

/// Records of fields of several widths, one nest for each field. With `rows`, the columns are
/// transposed: their fastest dimension is the slow one of the records.
struct Mixed {
  std::vector<std::int64_t> widths;
  bool to_columns = true;
  std::int64_t rows = 1;
  bool odd = false;  ///< columns begin misaligned
};

Case mixed_case(const Mixed& mixed) {
  Case one;
  one.name = mixed.rows > 1 ? "transposed " : "";
  one.name += mixed.to_columns ? "records to columns, widths" : "columns to records, widths";
  std::int64_t record = 0, at = 0;
  for (const std::int64_t bytes : mixed.widths) {
    record += bytes;
    one.name += " " + std::to_string(bytes);
  }
  const std::int64_t columns = bytes_wanted / record / mixed.rows / 64 * 64 - (mixed.odd ? 1 : 0);
  if (mixed.odd) one.name += ", odd";
  const std::int64_t count = columns * mixed.rows;
  for (const std::int64_t bytes : mixed.widths) {
    LoopNest nest;
    nest.element_bytes = bytes;
    const auto loop = [&](std::int64_t extent, std::int64_t in_records, std::int64_t in_columns) {
      nest.loops[static_cast<std::size_t>(nest.rank++)] =
          mixed.to_columns ? Loop{extent, in_records, in_columns}
                           : Loop{extent, in_columns, in_records};
    };
    loop(columns, record, bytes * mixed.rows);
    if (mixed.rows > 1) loop(mixed.rows, record * columns, bytes);
    nest.source_offset = mixed.to_columns ? at : at * count;
    nest.target_offset = mixed.to_columns ? at * count : at;
    at += bytes;
    (at == bytes ? one.nest : one.others.emplace_back()) = nest;
  }
  return one;
}

/// Records whose fields begin at `source_at` become records, or blocks of several records' fields.
struct Shuffled {
  std::string name;
  std::vector<std::int64_t> widths;
  std::vector<std::int64_t> source_at;
  std::int64_t source_record = 0;
  std::int64_t block = 1;  ///< records whose equal fields follow each other in the target
};

Case shuffled_case(const Shuffled& shuffled) {
  Case one;
  one.name = shuffled.name;
  std::int64_t target_record = 0, at = 0;
  for (const std::int64_t bytes : shuffled.widths) target_record += bytes;
  const std::int64_t widest = std::max(target_record, shuffled.source_record);
  const std::int64_t count = bytes_wanted / widest / shuffled.block;
  for (std::size_t k = 0; k < shuffled.widths.size(); ++k) {
    LoopNest nest;
    nest.element_bytes = shuffled.widths[k];
    nest.source_offset = shuffled.source_at[k];
    nest.target_offset = at;
    nest.rank = 2;
    nest.loops[0] = {shuffled.block, shuffled.source_record, nest.element_bytes};
    nest.loops[1] = {count, shuffled.block * shuffled.source_record,
                     shuffled.block * target_record};
    at += shuffled.block * shuffled.widths[k];
    (k == 0 ? one.nest : one.others.emplace_back()) = nest;
  }
  // The bytes between the fields are read, but are not counted as moved.
  one.attainable = 2.0 * static_cast<double>(target_record) /
                   static_cast<double>(target_record + shuffled.source_record);
  return one;
}

void shuffles(Bench& bench) {
  bench.run(shuffled_case(
      {"records to blocks of 4, widths 8 4 2 2", {8, 4, 2, 2}, {0, 8, 12, 14}, 16, 4}));
  bench.run(shuffled_case(
      {"records in reversed order, widths 2 2 4 8", {2, 2, 4, 8}, {14, 12, 8, 0}, 16}));
  bench.run(shuffled_case({"aligned to packed records, widths 8 4 1", {8, 4, 1}, {0, 8, 12}, 16}));
  bench.run(shuffled_case({"4 x u8 to 3 x u8", {3}, {0}, 4}));
  bench.run(shuffled_case({"4 x f32 to 3 x f32", {12}, {0}, 16}));
  bench.run(shuffled_case({"every second f32", {4}, {0}, 8}));
}

void mixed_widths(Bench& bench) {
  for (const bool to_columns : {true, false}) {
    bench.run(mixed_case({{8, 4, 2, 2}, to_columns}));
    bench.run(mixed_case({{4, 8}, to_columns}));
    bench.run(mixed_case({{1, 1, 2, 4, 8}, to_columns}));
    bench.run(mixed_case({{8, 8, 8, 4, 4, 1}, to_columns}));
    bench.run(mixed_case({{3, 5, 12, 7}, to_columns}));
    bench.run(mixed_case({{8, 4, 4, 4, 8, 2, 2, 2, 2, 1, 1, 1, 1, 4, 4, 8}, to_columns}));
    bench.run(mixed_case({{4, 4, 4}, to_columns, 1, true}));
    bench.run(mixed_case({{2, 2, 2}, to_columns, 1, true}));
    bench.run(mixed_case({{4, 4, 4, 4, 4}, to_columns, 1, true}));
    bench.run(mixed_case({{8, 4, 2, 2}, to_columns, 4096}));
    bench.run(mixed_case({{4, 8}, to_columns, 3001}));
  }
}

void blocks(Bench& bench) {
  mixed_widths(bench);
  shuffles(bench);
  const std::int64_t count = bytes_wanted / (4 * 8 * 4);
  const std::vector<std::int64_t> extents = {4, 8, count};  // x in a block, fields, blocks of x
  bench.run(dense("columns to blocks of 4", 4, extents, {0, 2, 1}, {0, 1, 2}));
  bench.run(dense("blocks of 4 to columns", 4, extents, {0, 1, 2}, {0, 2, 1}));
  bench.run(dense("records to blocks of 4", 4, extents, {1, 0, 2}, {0, 1, 2}));
  bench.run(dense("blocks of 4 to records", 4, extents, {0, 1, 2}, {1, 0, 2}));
  const std::int64_t side = bytes_wanted / (12 * 6688);
  bench.run(dense("transpose of records of 12 B", 12, {6688, side}, {0, 1}, {1, 0}));
  bench.run(dense("transpose of records of 48 B", 48, {3344, side / 2}, {0, 1}, {1, 0}));
  const std::int64_t pages = bytes_wanted / 4096;
  bench.run(dense("rows of 4 KiB in another order", 4096, {256, pages / 256}, {0, 1}, {1, 0}));
  Case shifted = dense("one run, source off by 4 bytes", 4096, {pages}, {0}, {0});
  shifted.source_shift = 4;
  bench.run(shifted);
  Case rows = dense("rows of 1000 B at odd addresses", 1000, {bytes_wanted / 1024}, {0}, {0});
  rows.nest.loops[0] = {bytes_wanted / 1024, 1021, 1003};
  rows.source_shift = 1;
  bench.run(rows);
  Case one_column;
  one_column.name = "field 3 of 8 x f32 alone";
  one_column.attainable = 8.0 / (32 + 4);  // a sector is read for each 4 bytes
  one_column.nest.element_bytes = 4;
  one_column.nest.source_offset = 12;
  one_column.nest.rank = 1;
  one_column.nest.loops[0] = {bytes_wanted / 32, 32, 4};
  bench.run(one_column);
}

/// Returns a dense object that becomes a part of an array, whose rows are at least twice as long.
Case part_case(const std::string& name, std::int64_t element_bytes,
               const std::vector<std::int64_t>& part) {
  Case one;
  one.name = name;
  one.nest.element_bytes = element_bytes;
  one.nest.rank = static_cast<int>(part.size());
  std::int64_t source_stride = element_bytes, target_stride = element_bytes;
  for (std::size_t k = 0; k < part.size(); ++k) {
    one.nest.loops[k] = {part[k], source_stride, target_stride};
    source_stride *= part[k];
    target_stride *= part[k] + (k == 0 ? part[0] | 1 : 1);
  }
  return one;
}

void parts(Bench& bench) {
  for (const std::int64_t bytes : {1, 2, 4, 8}) {
    for (const std::int64_t run : {24, 72, 168, 648, 4008}) {
      const std::int64_t count = run / bytes + 1 - run / bytes % 2;  // odd
      const std::int64_t rows = bytes_wanted * 3 / 8 / (bytes * count) / 161;
      bench.run(part_case(
          "part with rows of " + std::to_string(count) + " x " + std::to_string(bytes) + " B, odd",
          bytes, {count, 161, rows}));
    }
  }
  for (const std::int64_t run : {4, 8, 16}) {
    const std::int64_t rest = bytes_wanted / 8 / (16 * run) / (4 * 4 * 4 * 4 * 4);
    bench.run(part_case("part with rows of " + std::to_string(run) + " x 16 B, 7-D", 16,
                        {run, 4, 4, 4, 4, 4, rest}));
  }
}

/// Returns dense objects, one behind the other, that become a dense array, the first dimension
/// fastest; each dimension is cut into parts that are as equal as possible.
std::vector<LoopNest> reassembly(std::int64_t element_bytes,
                                 const std::vector<std::int64_t>& extents, std::int64_t parts) {
  std::vector<LoopNest> nests;
  std::int64_t objects = 1, source = 0;
  for (std::size_t k = 0; k < extents.size(); ++k) objects *= parts;
  for (std::int64_t number = 0; number < objects; ++number) {
    LoopNest nest;
    nest.element_bytes = element_bytes;
    nest.rank = static_cast<int>(extents.size());
    nest.source_offset = source;
    std::int64_t rest = number, inside = element_bytes, whole = element_bytes;
    for (std::size_t k = 0; k < extents.size(); ++k) {
      const std::int64_t lower = rest % parts * extents[k] / parts;
      const std::int64_t extent = (rest % parts + 1) * extents[k] / parts - lower;
      nest.loops[k] = {extent, inside, whole};
      nest.target_offset += lower * whole;
      inside *= extent;
      whole *= extents[k];
      rest /= parts;
    }
    source += (inside + 255) / 256 * 256;
    nests.push_back(nest);
  }
  return nests;
}

void reassemblies(Bench& bench) {
  const auto cubes = [&](std::int64_t bytes, std::int64_t side, std::int64_t parts) {
    const std::int64_t planes = bytes_wanted / bytes / (side * side);
    const std::string name = "reassembly of " + std::to_string(parts * parts * parts) +
                             ", rows of " + std::to_string(side) + " x " + std::to_string(bytes) +
                             " B";
    bench.run_list(name, reassembly(bytes, {side, side, planes}, parts));
  };
  for (const std::int64_t parts : {2, 4, 8}) {
    cubes(8, 512, parts);
    cubes(8, 500, parts);
    cubes(8, 475, parts);
    cubes(4, 647, parts);
    cubes(2, 647, parts);
    cubes(1, 647, parts);
  }
  const std::int64_t rest = bytes_wanted / 8 / (16 * 16 * 16 * 32 * 16);
  bench.run_list("reassembly of 64, 6-D, 8 B", reassembly(8, {16, 32, 16, 16, 16, rest}, 2));
  const std::int64_t last = bytes_wanted / 16 / (8 * 8 * 8 * 8 * 8 * 8 * 8);
  bench.run_list("reassembly of 256, 8-D, 16 B", reassembly(16, {8, 8, 8, 8, 8, 8, 8, last}, 2));
}

/// Transposes of equal matrices that follow each other.
void repeats(Bench& bench) {
  const auto matrices = [&](std::int64_t element_bytes, std::int64_t rows, std::int64_t columns,
                            std::int64_t gap) {
    const std::int64_t each = rows * columns * element_bytes;
    const std::int64_t count = std::min<std::int64_t>(bytes_wanted / (each + gap), 4000);
    std::vector<LoopNest> nests;
    for (std::int64_t k = 0; k < count; ++k) {
      LoopNest nest;
      nest.element_bytes = element_bytes;
      nest.source_offset = nest.target_offset = k * (each + gap);
      nest.rank = 2;
      nest.loops[0] = {columns, element_bytes, rows * element_bytes};
      nest.loops[1] = {rows, columns * element_bytes, element_bytes};
      nests.push_back(nest);
    }
    bench.run_repeats(std::to_string(count) + " transposes of " + std::to_string(rows) + " x " +
                          std::to_string(columns) + " x " + std::to_string(element_bytes) + " B, " +
                          std::to_string(gap) + " B apart",
                      nests);
  };
  matrices(4, 96, 128, 0);
  matrices(4, 97, 127, 4);
  matrices(2, 128, 192, 0);
  matrices(2, 63, 65, 2);
  matrices(8, 64, 96, 0);
  matrices(1, 200, 240, 0);
  matrices(16, 48, 64, 0);
  matrices(4, 32, 32, 0);
  matrices(4, 3, 1000, 4);
}

void lists(Bench& bench) {
  bench.run_pieces("16384 pieces of 4 KiB", 16384, 4096, 0);
  bench.run_pieces("131072 pieces of 4 KiB", 131072, 4096, 0);
  bench.run_pieces("32768 pieces of 16 KiB", 32768, 16384, 0);
  bench.run_pieces("8 pieces of 64 MiB", 8, std::int64_t{64} << 20, 0);
  bench.run_pieces("32768 pieces of 16 KiB, off by 4 bytes", 32768, 16384, 4);
}

/// Applies a setting such as "box_bytes=8192"; returns whether its name is known.
bool set(KernelTuning& tuning, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos) return false;
  const std::string name = setting.substr(0, equals);
  const std::int64_t number = std::atoll(setting.c_str() + equals + 1);
  if (name == "bytes") return bytes_wanted = number, true;
  if (name == "box_bytes") return tuning.box_bytes = number, true;
  if (name == "direct_box_bytes") return tuning.direct_box_bytes = number, true;
  if (name == "group_boxes") return tuning.group_boxes = number, true;
  if (name == "shifted_run_bytes") return tuning.shifted_run_bytes = number, true;
  if (name == "shifted_rows") return tuning.shifted_rows = number, true;
  if (name == "band_nests") return tuning.band_nests = number, true;
  return false;
}

}  // namespace
}  // namespace tranship::gpu

int main(int argc, char** argv) {
  using namespace tranship::gpu;
  KernelTuning tuning;
  for (int k = 3; k < argc; ++k) {
    if (!set(tuning, argv[k])) {
      std::fprintf(stderr, "%s is no setting; see the first lines of kernels_on_gpu.cu\n", argv[k]);
      return 2;
    }
  }
  Bench bench(argc > 1 ? argv[1] : nullptr, argc > 2 ? argv[2] : "", tuning);
  bench.copy();
  transposes(bench);
  records(bench);
  blocks(bench);
  parts(bench);
  reassemblies(bench);
  repeats(bench);
  lists(bench);
  return bench.finish();
}
