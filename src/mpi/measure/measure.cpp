// Measures for which types it is faster to pack here than to let MPI: `tranship mpi-run` runs it
// once on two processes and keeps what it prints. A line is "message 64 65536 2.7": what, bytes of
// a contiguous run, bytes of all elements, MPI's time over the time of packing here. Before them
// comes "cases 65", the number of cases, of which each has three lines.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

#include "mpi/choices.hpp"
#include "mpi/handles.hpp"
#include "tranship/packer.hpp"
#include "tranship/types.hpp"

namespace {

using tranship::Packer;
using tranship::mpi::Construction;
namespace types = tranship::types;

constexpr double sample_s = 0.003;  ///< least time of one sample
constexpr int samples = 7;
constexpr int rounds_max = 512;

/// Elements in runs, with gaps as long as themselves on average; sub-arrays have gaps between their
/// planes, too.
struct Case {
  Construction construction;
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

/// Returns the time of the first way over that of the second: the least of samples in turns, which
/// other programs disturb least.
double gain(const Way& by_mpi, const Way& here, MPI_Comm comm) {
  const int rounds_by_mpi = rounds_of(by_mpi, comm);
  const int rounds_here = rounds_of(here, comm);
  double slow = seconds_of(by_mpi, rounds_by_mpi);
  double fast = seconds_of(here, rounds_here);
  for (int k = 1; k < samples; ++k) {
    slow = std::min(slow, seconds_of(by_mpi, rounds_by_mpi));
    fast = std::min(fast, seconds_of(here, rounds_here));
  }
  return slow / fast;
}

class Measurement {
 public:
  Measurement(const Case& one, std::byte* items, std::byte* packed)
      : one_(one),
        items_(items),
        packed_(packed),
        places_(places_of(one)),
        packer_(type_of(one, places_)) {
    // Libraries pack numbers faster than bytes.
    const MPI_Datatype number = one.run_bytes < 8 ? MPI_FLOAT : MPI_DOUBLE;
    const std::int64_t number_bytes = one.run_bytes < 8 ? 4 : 8;
    const auto runs = static_cast<int>(one.runs());
    const auto length = static_cast<int>(one.run_bytes / number_bytes);
    if (one.construction == Construction::lists) {
      std::vector<int> places;
      for (const std::int64_t place : places_) {
        places.push_back(static_cast<int>(place / number_bytes));
      }
      MPI_Type_create_indexed_block(runs, length, places.data(), number, &type_);
    } else if (one.construction == Construction::arrays) {
      const std::array<std::int64_t, 3> sizes = array_of(one);
      const int whole[] = {static_cast<int>(sizes[0]), static_cast<int>(2 * sizes[1]), 2 * length};
      const int part[] = {whole[0], static_cast<int>(sizes[1]), length};
      const int begin[] = {0, 0, 0};
      MPI_Type_create_subarray(3, whole, part, begin, MPI_ORDER_C, number, &type_);
    } else if (one.construction == Construction::vectors) {
      MPI_Type_vector(runs, length, 2 * length, number, &type_);
    } else {
      MPI_Datatype block = MPI_DATATYPE_NULL;
      MPI_Type_contiguous(length, number, &block);
      MPI_Type_create_hvector(runs, 1, 2 * one.run_bytes, block, &type_);
      MPI_Type_free(&block);
      if (one.construction == Construction::structs) in_struct();
    }
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
  /// Returns the places of a list, in order, with gaps of no run to two; none for loops.
  static std::vector<std::int64_t> places_of(const Case& one) {
    std::vector<std::int64_t> places;
    std::uint64_t random = 1;
    for (std::int64_t k = 0; one.construction == Construction::lists && k < one.runs(); ++k) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      places.push_back(2 * one.run_bytes * k +
                       one.run_bytes * static_cast<std::int64_t>(random >> 63));
    }
    return places;
  }

  /// Returns the planes of a sub-array, the rows of each, and the bytes of a row, which is a run.
  static std::array<std::int64_t, 3> array_of(const Case& one) {
    const std::int64_t rows = std::min<std::int64_t>(one.runs(), 16);
    return {one.runs() / rows, rows, one.run_bytes};
  }

  static tranship::Datatype type_of(const Case& one, const std::vector<std::int64_t>& places) {
    const auto byte = types::element("V1");
    if (one.construction == Construction::arrays) {
      const std::array<std::int64_t, 3> part = array_of(one);
      const std::array<std::int64_t, 3> whole{part[0], 2 * part[1], 2 * part[2]};
      return types::subarray(whole, part, std::array<std::int64_t, 3>{}, byte);
    }
    if (one.construction == Construction::lists)
      return types::hindexed_block(one.run_bytes, places, byte);
    return types::hvector(one.runs(), one.run_bytes, 2 * one.run_bytes, byte);
  }

  /// Makes the type a structure of two halves.
  void in_struct() {
    MPI_Datatype half = MPI_DATATYPE_NULL;
    MPI_Datatype block = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(one_.run_bytes), MPI_BYTE, &block);
    MPI_Type_create_hvector(static_cast<int>(one_.runs() / 2), 1, 2 * one_.run_bytes, block, &half);
    const int lengths[] = {1, 1};
    const MPI_Aint places[] = {0, static_cast<MPI_Aint>(one_.bytes)};
    const MPI_Datatype members[] = {half, half};
    MPI_Type_free(&type_);
    MPI_Type_create_struct(2, lengths, places, members, &type_);
    MPI_Type_free(&half);
    MPI_Type_free(&block);
  }

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
  std::vector<std::int64_t> places_;
  Packer packer_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Measures one case, and prints its lines.
void measure(const Case& one, std::byte* items, std::byte* packed) {
  const Measurement measured(one, items, packed);
  const double messages = measured.messages();
  if (rank_here() != 0) return;
  const auto print = [&](const char* what, double value) {
    std::printf("%s %s %lld %lld %.3g\n", what,
                tranship::mpi::construction_names[static_cast<std::size_t>(one.construction)],
                static_cast<long long>(one.run_bytes), static_cast<long long>(one.bytes), value);
  };
  print("message", messages);
  print("pack", measured.packs());
  print("unpack", measured.unpacks());
  (void)std::fflush(stdout);  // who waits sees how far it is
}

void measure_all() {
  constexpr std::int64_t bytes_most = std::int64_t{4} << 20;
  constexpr std::int64_t listed_run_most = 256;
  std::vector<Case> cases;
  for (const Construction construction :
       {Construction::blocks, Construction::arrays, Construction::vectors, Construction::structs,
        Construction::lists}) {
    const bool listed = construction == Construction::lists;
    for (std::int64_t run = 4; run <= (listed ? listed_run_most : 4096); run *= 4) {
      for (std::int64_t bytes = 256; bytes <= bytes_most; bytes *= 4) {
        if (2 * run <= bytes) cases.push_back({construction, run, bytes});
      }
    }
  }
  if (rank_here() == 0) std::printf("cases %zu\n", cases.size());
  std::vector<std::byte> items(static_cast<std::size_t>(4 * bytes_most), std::byte{1});
  std::vector<std::byte> packed(static_cast<std::size_t>(bytes_most), std::byte{1});
  for (const Case& one : cases) measure(one, items.data(), packed.data());
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
  measure_all();
  MPI_Finalize();
  return 0;
}
