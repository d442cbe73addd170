#include "mpi/type_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>
#include <vector>

namespace tranship::mpi {
namespace {

using Numbers = std::vector<std::int64_t>;

/// What a constructor was called with.
struct Parts {
  int combiner = MPI_COMBINER_NAMED;
  /// All whole numbers, in the order of the constructor's arguments (MPI-4.1, section 5.1.13): of
  /// counts and lengths first, then displacements and strides in bytes. If the constructor counts
  /// in MPI_Count, subarrays and darrays have their sizes behind the others.
  Numbers numbers;
  bool large = false;
  std::vector<MPI_Datatype> bases;

  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    for (MPI_Datatype& base : bases) {
      if (!is_basic(base)) PMPI_Type_free(&base);
    }
  }
};

/// Whether types of a combiner have no constructor that can be read.
bool names_basic(int combiner) {
#ifdef TRANSHIP_MPI_VALUE_INDEX
  if (combiner == MPI_COMBINER_VALUE_INDEX) return true;
#endif
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

template <typename Number>
void append(Numbers& all, const std::vector<Number>& more) {
  for (const Number number : more) all.push_back(static_cast<std::int64_t>(number));
}

#ifdef TRANSHIP_MPI_LARGE_COUNTS
bool read_parts(MPI_Datatype type, Parts& parts) {
  MPI_Count integers = 0;
  MPI_Count addresses = 0;
  MPI_Count counts = 0;
  MPI_Count types = 0;
  if (PMPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &parts.combiner) !=
      MPI_SUCCESS) {
    return false;
  }
  if (names_basic(parts.combiner)) return true;
  std::vector<int> whole(static_cast<std::size_t>(integers));
  std::vector<MPI_Aint> places(static_cast<std::size_t>(addresses));
  std::vector<MPI_Count> large(static_cast<std::size_t>(counts));
  parts.bases.resize(static_cast<std::size_t>(types), MPI_DATATYPE_NULL);
  if (PMPI_Type_get_contents_c(type, integers, addresses, counts, types, whole.data(),
                               places.data(), large.data(), parts.bases.data()) != MPI_SUCCESS) {
    parts.bases.clear();
    return false;
  }
  parts.large = counts > 0;
  append(parts.numbers, whole);
  append(parts.numbers, places);
  append(parts.numbers, large);
  return true;
}
#else
bool read_parts(MPI_Datatype type, Parts& parts) {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &parts.combiner) != MPI_SUCCESS) {
    return false;
  }
  if (names_basic(parts.combiner)) return true;
  std::vector<int> whole(static_cast<std::size_t>(integers));
  std::vector<MPI_Aint> places(static_cast<std::size_t>(addresses));
  parts.bases.resize(static_cast<std::size_t>(types), MPI_DATATYPE_NULL);
  if (PMPI_Type_get_contents(type, integers, addresses, types, whole.data(), places.data(),
                             parts.bases.data()) != MPI_SUCCESS) {
    parts.bases.clear();
    return false;
  }
  append(parts.numbers, whole);
  append(parts.numbers, places);
  return true;
}
#endif

/// Takes the numbers of a constructor one after the other.
class Reader {
 public:
  explicit Reader(const Numbers& numbers) : rest_(numbers) {}

  std::int64_t one() {
    if (rest_.empty()) return short_of();
    const std::int64_t number = rest_.front();
    rest_ = rest_.subspan(1);
    return number;
  }
  std::span<const std::int64_t> some(std::int64_t count) {
    if (count < 0 || static_cast<std::size_t>(count) > rest_.size()) {
      short_of();
      return {};
    }
    const auto numbers = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(static_cast<std::size_t>(count));
    return numbers;
  }
  /// Whether there were as many numbers as were asked for, and no more.
  bool fits() const { return fits_ && rest_.empty(); }

 private:
  std::int64_t short_of() {
    fits_ = false;
    return 0;
  }

  std::span<const std::int64_t> rest_;
  bool fits_ = true;
};

Order order_of(std::int64_t order) { return order == MPI_ORDER_C ? Order::c : Order::fortran; }

Datatype subarray(const Parts& parts, Reader& of, const Datatype& base) {
  const std::int64_t rank = of.one();
  const std::int64_t early = parts.large ? of.one() : 0;
  const auto sizes = of.some(rank);
  const auto subsizes = of.some(rank);
  const auto starts = of.some(rank);
  const std::int64_t order = parts.large ? early : of.one();
  return types::subarray(sizes, subsizes, starts, base, order_of(order));
}

Datatype darray(const Parts& parts, Reader& of, const Datatype& base) {
  using Kind = types::Distribution::Kind;
  of.one();  // processes, which are the grid's
  const std::int64_t rank = of.one();
  const std::int64_t dimensions = of.one();
  auto sizes = parts.large ? std::span<const std::int64_t>() : of.some(dimensions);
  const auto kinds = of.some(dimensions);
  const auto arguments = of.some(dimensions);
  const auto grid = of.some(dimensions);
  const std::int64_t order = of.one();
  if (parts.large) sizes = of.some(dimensions);
  std::vector<types::Distribution> dealt;
  for (std::size_t k = 0; k < kinds.size() && k < arguments.size(); ++k) {
    const Kind kind = kinds[k] == MPI_DISTRIBUTE_BLOCK    ? Kind::block
                      : kinds[k] == MPI_DISTRIBUTE_CYCLIC ? Kind::cyclic
                                                          : Kind::none;
    const bool given = arguments[k] != MPI_DISTRIBUTE_DFLT_DARG;
    dealt.push_back({kind, given ? arguments[k] : 0});
  }
  return types::darray(rank, sizes, dealt, grid, base, order_of(order));
}

/// Returns the type that a constructor makes; nothing if it is not known.
std::optional<Datatype> construct(const Parts& parts, const std::vector<Datatype>& bases) {
  Reader of(parts.numbers);
  const auto made = [&]() -> std::optional<Datatype> {
    if (parts.combiner == MPI_COMBINER_STRUCT) {
      const std::int64_t count = of.one();
      const auto lengths = of.some(count);
      return types::structure(lengths, of.some(count), bases);
    }
    if (bases.size() != 1) return {};
    const Datatype& base = bases[0];
    switch (parts.combiner) {
      case MPI_COMBINER_DUP: return base;
      case MPI_COMBINER_CONTIGUOUS: return types::contiguous(of.one(), base);
      case MPI_COMBINER_VECTOR:
      case MPI_COMBINER_HVECTOR: {
        const std::int64_t count = of.one();
        const std::int64_t length = of.one();
        const auto make = parts.combiner == MPI_COMBINER_VECTOR ? types::vector : types::hvector;
        return make(count, length, of.one(), base);
      }
      case MPI_COMBINER_INDEXED:
      case MPI_COMBINER_HINDEXED: {
        const std::int64_t count = of.one();
        const auto lengths = of.some(count);
        const auto make = parts.combiner == MPI_COMBINER_INDEXED ? types::indexed : types::hindexed;
        return make(lengths, of.some(count), base);
      }
      case MPI_COMBINER_INDEXED_BLOCK:
      case MPI_COMBINER_HINDEXED_BLOCK: {
        const std::int64_t count = of.one();
        const std::int64_t length = of.one();
        const auto make = parts.combiner == MPI_COMBINER_INDEXED_BLOCK ? types::indexed_block
                                                                       : types::hindexed_block;
        return make(length, of.some(count), base);
      }
      case MPI_COMBINER_SUBARRAY: return subarray(parts, of, base);
      case MPI_COMBINER_DARRAY: return darray(parts, of, base);
      case MPI_COMBINER_RESIZED: {
        const std::int64_t lower_bound = of.one();
        return types::resized(base, lower_bound, of.one());
      }
      default: return {};
    }
  }();
  return of.fits() ? made : std::nullopt;
}

/// Returns the kind of a constructor.
Construction construction_of(const Parts& parts) {
  switch (parts.combiner) {
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK: return Construction::lists;
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
      return is_basic(parts.bases[0]) ? Construction::vectors : Construction::blocks;
    case MPI_COMBINER_STRUCT: return Construction::structs;
    case MPI_COMBINER_SUBARRAY:
      return is_basic(parts.bases[0]) ? Construction::arrays : Construction::blocks;
    default: return Construction::blocks;
  }
}

/// Whether the members of a structure have so many runs that MPI is as fast with each of them as
/// with a type of its own.
bool has_long_members(const std::vector<Datatype>& members) {
  constexpr std::int64_t member_runs_least = 16;
  return std::all_of(members.begin(), members.end(),
                     [](const Datatype& member) { return member.runs() >= member_runs_least; });
}

std::optional<ReadType> read(MPI_Datatype type, int depth) {
  constexpr int depth_max = 32;
  MPI_Count bytes = 0;
  MPI_Count lower_bound = 0;
  MPI_Count extent = 0;
  Parts parts;
  if (depth > depth_max || PMPI_Type_size_x(type, &bytes) != MPI_SUCCESS ||
      PMPI_Type_get_extent_x(type, &lower_bound, &extent) != MPI_SUCCESS ||
      !read_parts(type, parts)) {
    return {};
  }
  if (names_basic(parts.combiner)) {
    if (bytes != extent || lower_bound != 0 || bytes <= 0) return {};
    return ReadType{types::contiguous(bytes, types::element("V1"))};
  }
  std::vector<Datatype> bases;
  Construction inside = Construction::blocks;
  for (const MPI_Datatype base : parts.bases) {
    auto inner = read(base, depth + 1);
    if (!inner) return {};
    bases.push_back(std::move(inner->type));
    inside = std::max(inside, inner->construction);
  }
  const bool as_members = inside == Construction::arrays && parts.combiner == MPI_COMBINER_STRUCT &&
                          has_long_members(bases);
  const Construction construction = as_members ? inside : std::max(construction_of(parts), inside);
  auto made = construct(parts, bases);
  if (!made || made->bytes() != bytes) return {};
  // Raw bytes have no alignment, by which MPI rounds the extents of structures.
  if (made->lower_bound() != lower_bound || made->extent() != extent) {
    made = types::resized(*made, lower_bound, extent);
  }
  return ReadType{std::move(*made), construction};
}

}  // namespace

bool is_basic(MPI_Datatype type) {
  int combiner = MPI_COMBINER_NAMED;
#ifdef TRANSHIP_MPI_LARGE_COUNTS
  MPI_Count none = 0;
  const int code = PMPI_Type_get_envelope_c(type, &none, &none, &none, &none, &combiner);
#else
  int none = 0;
  const int code = PMPI_Type_get_envelope(type, &none, &none, &none, &combiner);
#endif
  return code == MPI_SUCCESS && names_basic(combiner);
}

std::optional<ReadType> read_type(MPI_Datatype type) {
  try {
    return read(type, 0);
  } catch (const std::exception&) {
    return {};  // nested too deeply, or too many places: left to MPI
  }
}

}  // namespace tranship::mpi
