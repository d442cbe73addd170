// Measures for which types it is faster to pack here than to let MPI: `tranship mpi-run` runs it
// once on two processes and keeps what it prints. A line is "message 64 65536 2.7": what, bytes of
// a contiguous run, bytes of all elements, MPI's time over the time of packing here.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

#include "mpi/handles.hpp"
#include "tranship/packer.hpp"
#include "tranship/types.hpp"

namespace {

using tranship::Packer;
namespace types = tranship::types;

constexpr double sample_s = 0.004;  ///< least time of one sample
constexpr int samples = 7;
constexpr int rounds_max = 512;

/// Elements in runs with gaps as long as themselves.
struct Case {
  std::int64_t run_bytes;
  std::int64_t bytes;

  std::int64_t runs() const { return bytes / run_bytes; }
};

/// One way to do the same work, `rounds` times.
using Way = std::function<void(int rounds)>;

int rank_here() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

double seconds_of(const Way& way, int rounds) {
  const double begin = MPI_Wtime();
  way(rounds);
  return (MPI_Wtime() - begin) / rounds;
}

/// Returns how many rounds take as long as a sample; the same number in every process of `comm`.
int rounds_of(const Way& way, MPI_Comm comm) {
  way(1);
  const double once = seconds_of(way, 2);
  int rounds = std::clamp(static_cast<int>(sample_s / std::max(once, 1e-9)), 2, rounds_max);
  MPI_Bcast(&rounds, 1, MPI_INT, 0, comm);
  return rounds;
}

/// Returns the time of the first way over that of the second: medians of samples in turns.
double gain(const Way& by_mpi, const Way& here, MPI_Comm comm) {
  const int rounds_by_mpi = rounds_of(by_mpi, comm);
  const int rounds_here = rounds_of(here, comm);
  std::vector<double> slow;
  std::vector<double> fast;
  for (int k = 0; k < samples; ++k) {
    slow.push_back(seconds_of(by_mpi, rounds_by_mpi));
    fast.push_back(seconds_of(here, rounds_here));
  }
  std::sort(slow.begin(), slow.end());
  std::sort(fast.begin(), fast.end());
  return slow[samples / 2] / fast[samples / 2];
}

class Measurement {
 public:
  Measurement(const Case& one, std::byte* items, std::byte* packed)
      : one_(one),
        items_(items),
        packed_(packed),
        packer_(
            types::hvector(one.runs(), one.run_bytes, 2 * one.run_bytes, types::element("V1"))) {
    MPI_Type_vector(static_cast<int>(one.runs()), static_cast<int>(one.run_bytes),
                    static_cast<int>(2 * one.run_bytes), MPI_BYTE, &type_);
    MPI_Type_commit(&type_);
  }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;
  ~Measurement() { MPI_Type_free(&type_); }

  /// Messages to the other process and back.
  double messages() const {
    return gain(
        [this](int rounds) {
          to_and_fro(
              rounds, [this](int peer) { send(items_, 1, type_, peer); },
              [this](int peer) { receive(items_, 1, type_, peer); });
        },
        [this](int rounds) {
          to_and_fro(
              rounds,
              [this](int peer) {
                packer_.pack(items_, packed_);
                send(packed_, bytes(), MPI_PACKED, peer);
              },
              [this](int peer) {
                receive(packed_, bytes(), MPI_PACKED, peer);
                packer_.unpack(packed_, items_);
              });
        },
        MPI_COMM_WORLD);
  }

  /// MPI_Pack, by one process alone.
  double packs() const {
    return gain(
        [this](int rounds) {
          for (int k = 0; k < rounds; ++k) {
            int position = 0;
            MPI_Pack(items_, 1, type_, packed_, bytes(), &position, MPI_COMM_SELF);
          }
        },
        [this](int rounds) {
          for (int k = 0; k < rounds; ++k) packer_.pack(items_, packed_);
        },
        MPI_COMM_SELF);
  }

  double unpacks() const {
    return gain(
        [this](int rounds) {
          for (int k = 0; k < rounds; ++k) {
            int position = 0;
            MPI_Unpack(packed_, bytes(), &position, items_, 1, type_, MPI_COMM_SELF);
          }
        },
        [this](int rounds) {
          for (int k = 0; k < rounds; ++k) packer_.unpack(packed_, items_);
        },
        MPI_COMM_SELF);
  }

 private:
  int bytes() const { return static_cast<int>(one_.bytes); }

  static void send(const void* items, int count, MPI_Datatype type, int peer) {
    MPI_Send(items, count, type, peer, 0, MPI_COMM_WORLD);
  }
  static void receive(void* items, int count, MPI_Datatype type, int peer) {
    MPI_Recv(items, count, type, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  template <typename Send, typename Receive>
  static void to_and_fro(int rounds, const Send& send, const Receive& receive) {
    const int rank = rank_here();
    for (int k = 0; k < 2 * rounds; ++k) {
      if (k % 2 == rank) {
        send(1 - rank);
      } else {
        receive(1 - rank);
      }
    }
  }

  Case one_;
  std::byte* items_;
  std::byte* packed_;
  Packer packer_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

int measure() {
  constexpr std::int64_t bytes_most = std::int64_t{8} << 20;
  std::vector<std::byte> items(static_cast<std::size_t>(2 * bytes_most), std::byte{1});
  std::vector<std::byte> packed(static_cast<std::size_t>(bytes_most), std::byte{1});
  const bool prints = rank_here() == 0;
  for (std::int64_t run = 4; run <= 4096; run *= 4) {
    for (std::int64_t bytes = 256; bytes <= bytes_most; bytes *= 8) {
      if (2 * run > bytes) continue;
      const Measurement one({run, bytes}, items.data(), packed.data());
      const double messages = one.messages();
      if (!prints) continue;
      const auto print = [&](const char* what, double value) {
        std::printf("%s %lld %lld %.3g\n", what, static_cast<long long>(run),
                    static_cast<long long>(bytes), value);
      };
      print("message", messages);
      print("pack", one.packs());
      print("unpack", one.unpacks());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int processes = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  if (processes != 2) {
    std::fprintf(stderr, "run this on two processes, not on %d\n", processes);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int code = measure();
  MPI_Finalize();
  return code;
}
