// How many bytes a GPU's memory moves for short accesses: runs that lie some distance apart are
// read to, or written from, dense memory, as packs and unpacks do. Prints for each the time beside
// that of a copy which moves as many bytes as the sectors that are touched.
// Build: nvcc -std=c++20 -O3 -arch=native benchmarks/gpu/sectors.cu -o sectors
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace {

constexpr std::int64_t span_bytes = std::int64_t{2} << 30;  // far more than the GPU's caches
constexpr int repeats = 9;

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

/// Moves runs of `words` words of four bytes, which lie `stride` words apart on one side.
template <bool packs>
__global__ void move(std::uint32_t* strided, std::uint32_t* dense, std::uint32_t words,
                     std::int64_t stride, std::int64_t count) {
  constexpr int together = 8;
  const std::int64_t begin = std::int64_t{blockIdx.x} * blockDim.x * together + threadIdx.x;
  std::uint32_t held[together];
#pragma unroll
  for (int r = 0; r < together; ++r) {
    const std::int64_t k = min(begin + r * blockDim.x, count - 1);
    const std::int64_t run = static_cast<std::uint32_t>(k) / words;
    held[r] = packs ? strided[run * stride + (k - run * words)] : dense[k];
  }
#pragma unroll
  for (int r = 0; r < together; ++r) {
    const std::int64_t k = begin + r * blockDim.x;
    if (k >= count) break;
    const std::int64_t run = static_cast<std::uint32_t>(k) / words;
    (packs ? dense[k] : strided[run * stride + (k - run * words)]) = held[r];
  }
}

double median_s(const std::function<void()>& work) {
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin));
  require(cudaEventCreate(&end));
  std::vector<float> times;
  for (int k = 0; k < repeats; ++k) {
    require(cudaEventRecord(begin));
    work();
    require(cudaEventRecord(end));
    require(cudaEventSynchronize(end));
    times.emplace_back();
    require(cudaEventElapsedTime(&times.back(), begin, end));
  }
  std::sort(times.begin(), times.end());
  return times[repeats / 2] * 1e-3;
}

}  // namespace

int main() {
  std::uint32_t* strided = nullptr;
  std::uint32_t* dense = nullptr;
  require(cudaMalloc(&strided, span_bytes));
  require(cudaMalloc(&dense, span_bytes));
  require(cudaMemset(strided, 1, span_bytes));
  require(cudaMemset(dense, 2, span_bytes));
  std::printf("run B  distance B  pack, times the sectors' copy  unpack\n");
  for (const std::int64_t bytes : {4, 12, 16, 32, 48, 64, 92}) {
    for (const std::int64_t distance : {32, 64, 96, 128, 256, 512}) {
      if (distance < bytes) continue;
      const std::int64_t runs = span_bytes / distance;
      const std::int64_t count = runs * bytes / 4;
      const std::int64_t touched = runs * ((bytes + 31) / 32 * 32) + count * 4;
      const double copy = median_s([&] {
        require(cudaMemcpyAsync(dense, strided, static_cast<std::size_t>(touched / 2),
                                cudaMemcpyDeviceToDevice));
      });
      const auto blocks = static_cast<unsigned>((count + 2047) / 2048);
      const auto words = static_cast<std::uint32_t>(bytes / 4);
      const double pack = median_s([&] {
        move<true><<<blocks, 256>>>(strided, dense, words, distance / 4, count);
        require(cudaGetLastError());
      });
      const double unpack = median_s([&] {
        move<false><<<blocks, 256>>>(strided, dense, words, distance / 4, count);
        require(cudaGetLastError());
      });
      std::printf("%5ld  %10ld  %29.2f  %6.2f\n", static_cast<long>(bytes),
                  static_cast<long>(distance), pack / copy, unpack / copy);
    }
  }
  return 0;
}
