#include "staging/model/reduction.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/refusals.hpp"
#include "channels/host/convert.hpp"

namespace tranship::staging {
namespace {

/// Numbers that are converted at a time: they stay in the first cache.
constexpr std::int64_t chunk_numbers = 2048;
/// Numbers that are summed side by side.
constexpr std::size_t lanes = 8;
/// Rows of so many numbers are not copied beside each other first.
constexpr std::int64_t long_row = 256;
/// Equal parts of the range of a histogram, for each of which the first bin is looked up.
constexpr std::size_t cells = 1024;

constexpr std::size_t place(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Adds a number to a sum, and what rounding leaves out of it to `rest`.
void add(double& sum, double& rest, double number) {
  const double next = sum + number;
  if (std::isfinite(next)) {
    rest += std::abs(sum) >= std::abs(number) ? (sum - next) + number : (number - next) + sum;
  }
  sum = next;
}

NumberType computed_with(NumberClass numbers) {
  switch (numbers) {
    case NumberClass::integers: return {NumberKind::int64, false};
    case NumberClass::whole: return {NumberKind::uint64, false};
    case NumberClass::complexes: return {NumberKind::complex128, false};
    default: return {NumberKind::float64, false};
  }
}

template <typename Number>
std::uint64_t bits_of(Number number) {
  return std::bit_cast<std::uint64_t>(number);
}

/// Sets the bounds to those of both; `first`: There are none yet.
template <typename Number>
void widen(bool first, Number least, Number greatest, Reduced& into) {
  if (!first) {
    const auto old_least = std::bit_cast<Number>(into.least);
    const auto old_greatest = std::bit_cast<Number>(into.greatest);
    // Whatever is compared with NaN is false: what is NaN stays so.
    if (!(least < old_least) && least == least) least = old_least;
    if (!(greatest > old_greatest) && greatest == greatest) greatest = old_greatest;
    if (old_least != old_least) least = greatest = old_least;
  }
  into.least = bits_of(least);
  into.greatest = bits_of(greatest);
}

/// Adds numbers that follow each other to a summary.
void add_reals(std::span<const double> numbers, Reduced& into) {
  std::array<double, lanes> sums{};
  std::array<double, lanes> least;
  std::array<double, lanes> greatest;
  least.fill(std::numeric_limits<double>::infinity());
  greatest.fill(-std::numeric_limits<double>::infinity());
  const std::size_t whole = numbers.size() / lanes * lanes;
  for (std::size_t k = 0; k < whole; k += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const double one = numbers[k + lane];
      sums[lane] += one;
      least[lane] = one < least[lane] ? one : least[lane];
      greatest[lane] = one > greatest[lane] ? one : greatest[lane];
    }
  }
  for (std::size_t k = whole; k < numbers.size(); ++k) {
    const double one = numbers[k];
    sums[0] += one;
    least[0] = std::min(least[0], one);
    greatest[0] = std::max(greatest[0], one);
  }
  double total = 0;
  for (const double sum : sums) {
    add(into.sum, into.rest, sum);
    total += sum;
  }
  double low = *std::min_element(least.begin(), least.end());
  double high = *std::max_element(greatest.begin(), greatest.end());
  // The sum of numbers of which one is NaN is NaN; so may be that of infinite ones.
  if (std::isnan(total) &&
      std::any_of(numbers.begin(), numbers.end(), [](double one) { return std::isnan(one); })) {
    low = high = std::numeric_limits<double>::quiet_NaN();
  }
  widen(into.count == 0, low, high, into);
}

template <typename Number>
void add_integers(std::span<const Number> numbers, Reduced& into) {
  std::uint64_t sum = 0;
  Number least = numbers[0];
  Number greatest = numbers[0];
  for (const Number one : numbers) {
    sum += static_cast<std::uint64_t>(one);
    least = std::min(least, one);
    greatest = std::max(greatest, one);
  }
  into.integer_sum += sum;
  widen(into.count == 0, least, greatest, into);
}

/// Returns the plain sum of numbers, four side by side.
double sum_of(std::span<const double> numbers) {
  std::array<double, 4> sums{};
  const std::size_t whole = numbers.size() / 4 * 4;
  for (std::size_t k = 0; k < whole; k += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += numbers[k + lane];
  }
  for (std::size_t k = whole; k < numbers.size(); ++k) sums[0] += numbers[k];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void add_complexes(std::span<const double> parts, Reduced& into) {
  double real = 0;
  double imaginary = 0;
  for (std::size_t k = 0; k < parts.size(); k += 2) {
    real += parts[k];
    imaginary += parts[k + 1];
  }
  add(into.sum, into.rest, real);
  add(into.imaginary, into.imaginary_rest, imaginary);
}

/// Takes the numbers of a part of a box, run by run.
class Reducer {
 public:
  Reducer(const NumberBox& numbers, const Box& part, const Reduction& reduction)
      : numbers_(numbers),
        part_(part),
        reduction_(reduction),
        class_(class_of(numbers.type.kind)),
        // Bins and blocks are of real numbers.
        conversion_{
            numbers.type,
            computed_with(reduction.kind == ReductionKind::summary ? class_ : NumberClass::reals)} {
    row_ = part_.rank > 0 ? part_.extent(part_.rank - 1) : 1;
    if (reduction_.kind == ReductionKind::block_sums) blocks_ = blocks_of(part_, reduction_);
    if (reduction_.kind == ReductionKind::histogram) set_first_bins();
    in_place_ = !conversion_ && row_ >= long_row && bytes_of(numbers.type.kind) >= 8 &&
                reinterpret_cast<std::uintptr_t>(numbers.address) % alignof(double) == 0;
  }

  /// Makes room for the result.
  void make_room(Reduced& result) const {
    if (reduction_.kind == ReductionKind::histogram) {
      result.counts.resize(reduction_.edges.size() - 1);
    }
    if (reduction_.kind == ReductionKind::block_sums) result.sums.resize(place(blocks_.points()));
  }

  /// Reduces the numbers from `first` to `last`, exclusive, as they are counted row by row.
  /// Allocates nothing.
  void take(std::int64_t first, std::int64_t last, Reduced& into) {
    const std::int64_t bytes = bytes_of(numbers_.type.kind);
    for (std::int64_t number = first; number < last;) {
      const std::int64_t row = number / row_;
      const std::byte* source = numbers_.address + offset_of(row) * bytes;
      const std::size_t block = block_of(row);
      const std::int64_t stop = std::min(row_, last - row * row_);
      for (std::int64_t column = number % row_; column < stop;) {
        const std::int64_t count = std::min(stop - column, chunk_numbers - filled_);
        const std::byte* const from = source + column * bytes;
        if (!in_place_) fetch(from, count);
        const std::byte* const numbers = in_place_ ? from : buffer_.data();
        if (reduction_.kind == ReductionKind::block_sums) {
          add_to_blocks(span_of<double>(numbers, count), block, column, into);
          filled_ = 0;
        } else if (in_place_) {
          add_numbers(numbers, count, into);
        } else if (filled_ == chunk_numbers) {
          flush(into);
        }
        column += count;
        number += count;
      }
    }
    flush(into);
    if (reduction_.kind == ReductionKind::block_sums) into.count = last - first;
  }

 private:
  /// Returns the place of a row's first number in the array, in numbers.
  std::int64_t offset_of(std::int64_t row) const {
    std::int64_t offset = 0;
    std::int64_t stride = 1;
    for (int k = numbers_.box.rank - 1; k >= 0; --k) {
      std::int64_t index = part_.lower[place(k)] - numbers_.box.lower[place(k)];
      if (k < numbers_.box.rank - 1) {
        index += row % part_.extent(k);
        row /= part_.extent(k);
      }
      offset += index * stride;
      stride *= numbers_.box.extent(k);
    }
    return offset;
  }

  /// Returns the first of the blocks, among those of the part, that a row touches; 0 without
  /// blocks.
  std::size_t block_of(std::int64_t row) const {
    if (reduction_.kind != ReductionKind::block_sums || part_.rank == 0) return 0;
    std::int64_t block = 0;
    std::int64_t stride = blocks_.extent(part_.rank - 1);
    for (int k = part_.rank - 2; k >= 0; --k) {
      const std::int64_t index = part_.lower[place(k)] + row % part_.extent(k);
      row /= part_.extent(k);
      block += (block_at(index, k) - blocks_.lower[place(k)]) * stride;
      stride *= blocks_.extent(k);
    }
    return place(block);
  }

  std::int64_t block_at(std::int64_t index, int dimension) const {
    return (index - reduction_.origin[place(dimension)]) / reduction_.extents[place(dimension)];
  }

  /// Converts numbers to the end of the buffer.
  void fetch(const std::byte* source, std::int64_t count) {
    std::byte* const target = buffer_.data() + filled_ * conversion_.target_bytes();
    if (conversion_) {
      host::convert_run(conversion_, source, target, count, false);
    } else {
      std::memcpy(target, source, place(count * conversion_.target_bytes()));
    }
    filled_ += count;
  }

  template <typename Number>
  static std::span<const Number> span_of(const std::byte* numbers, std::int64_t count) {
    return {reinterpret_cast<const Number*>(numbers), place(count)};
  }

  void flush(Reduced& into) {
    const std::int64_t count = std::exchange(filled_, 0);
    if (count > 0) add_numbers(buffer_.data(), count, into);
  }

  void add_numbers(const std::byte* numbers, std::int64_t count, Reduced& into) {
    if (reduction_.kind == ReductionKind::histogram) {
      for (const double one : span_of<double>(numbers, count)) add_to_bins(one, into.counts);
    } else {
      switch (class_) {
        case NumberClass::reals: add_reals(span_of<double>(numbers, count), into); break;
        case NumberClass::integers:
          add_integers(span_of<std::int64_t>(numbers, count), into);
          break;
        case NumberClass::whole: add_integers(span_of<std::uint64_t>(numbers, count), into); break;
        case NumberClass::complexes:
          add_complexes(span_of<double>(numbers, 2 * count), into);
          break;
      }
    }
    into.count += count;
  }

  /// Looks up the bin of the first number of each cell.
  void set_first_bins() {
    const std::vector<double>& edges = reduction_.edges;
    const double width = edges.back() - edges.front();
    cells_per_number_ = static_cast<double>(cells) / width;
    if (!std::isfinite(cells_per_number_) || !std::isfinite(width)) cells_per_number_ = 0;
    std::size_t bin = 0;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const double first = edges.front() + static_cast<double>(cell) * width / cells;
      while (bin + 2 < edges.size() && edges[bin + 1] <= first) ++bin;
      first_bins_[cell] = static_cast<std::uint16_t>(bin);
    }
  }

  void add_to_bins(double number, std::vector<std::int64_t>& counts) const {
    const std::vector<double>& edges = reduction_.edges;
    if (!(number >= edges.front() && number <= edges.back())) return;  // also NaN
    // A range that float64 cannot hold has one cell.
    const bool spread = cells_per_number_ > 0;
    const auto cell =
        spread ? static_cast<std::size_t>((number - edges.front()) * cells_per_number_) : 0;
    std::size_t bin = first_bins_[std::min(cell, cells - 1)];
    while (bin > 0 && number < edges[bin]) --bin;  // rounding may have led to the next cell
    while (bin + 2 < edges.size() && number >= edges[bin + 1]) ++bin;
    ++counts[bin];
  }

  /// Adds numbers of a row, from a column on, to the blocks that they lie in.
  void add_to_blocks(std::span<const double> row, std::size_t block, std::int64_t column,
                     Reduced& into) {
    const auto count = std::ssize(row);
    if (part_.rank == 0) {
      into.sums[0] += row[0];
      return;
    }
    const int last = part_.rank - 1;
    const std::int64_t extent = reduction_.extents[place(last)];
    const std::int64_t index = part_.lower[place(last)] + column;
    const std::int64_t first = block_at(index, last);
    // How far the end of the block is from the next number.
    std::int64_t left = extent - (index - reduction_.origin[place(last)] - first * extent);
    double* target = into.sums.data() + block + place(first - blocks_.lower[place(last)]);
    for (std::int64_t k = 0; k < count; left = extent) {
      const std::int64_t numbers = std::min(count - k, left);
      *target++ += sum_of(row.subspan(place(k), place(numbers)));
      k += numbers;
    }
  }

  const NumberBox& numbers_;
  const Box& part_;
  const Reduction& reduction_;
  NumberClass class_;
  Conversion conversion_;
  std::int64_t row_ = 1;
  Box blocks_;
  std::int64_t filled_ = 0;
  bool in_place_ = false;  ///< Whether numbers are read where they lie.
  double cells_per_number_ = 0;
  std::array<std::uint16_t, cells> first_bins_{};
  alignas(64) std::array<std::byte, place(16 * chunk_numbers)> buffer_;
};

}  // namespace

NumberClass class_of(NumberKind kind) {
  if (is_complex(kind)) return NumberClass::complexes;
  if (kind >= NumberKind::int8 && kind <= NumberKind::int64) return NumberClass::integers;
  if (kind == NumberKind::boolean || (kind >= NumberKind::uint8 && kind <= NumberKind::uint64)) {
    return NumberClass::whole;
  }
  return NumberClass::reals;
}

bool fits(const Reduction& reduction, const Box& box, NumberKind kind) {
  const auto rank = place(box.rank);
  switch (reduction.kind) {
    case ReductionKind::summary: return true;
    case ReductionKind::histogram:
      return !is_complex(kind) && reduction.edges.size() >= 2 &&
             std::is_sorted(reduction.edges.begin(), reduction.edges.end()) &&
             std::all_of(reduction.edges.begin(), reduction.edges.end(),
                         [](double edge) { return std::isfinite(edge); });
    case ReductionKind::block_sums: break;
  }
  if (is_complex(kind) || reduction.origin.size() != rank || reduction.extents.size() != rank) {
    return false;
  }
  for (std::size_t k = 0; k < rank; ++k) {
    const bool lies = reduction.origin[k] >= -index_most && reduction.origin[k] <= box.lower[k];
    if (!lies || reduction.extents[k] < 1) return false;
  }
  return true;
}

Box blocks_of(const Box& box, const Reduction& reduction) {
  Box blocks = box;
  for (int k = 0; k < box.rank; ++k) {
    const std::int64_t extent = reduction.extents[place(k)];
    const std::int64_t origin = reduction.origin[place(k)];
    blocks.lower[place(k)] = (box.lower[place(k)] - origin) / extent;
    blocks.upper[place(k)] = (box.upper[place(k)] - 1 - origin) / extent + 1;
  }
  return blocks;
}

void merge(const Reduction& reduction, NumberClass numbers, const Box& other_box,
           const Reduced& other, const Box& box, Reduced& into) {
  if (other.count == 0) return;
  const bool first = into.count == 0;
  into.count += other.count;
  if (reduction.kind == ReductionKind::histogram) {
    into.counts.resize(other.counts.size());
    for (std::size_t k = 0; k < other.counts.size(); ++k) into.counts[k] += other.counts[k];
    return;
  }
  if (reduction.kind == ReductionKind::block_sums) {
    const Box whole = blocks_of(box, reduction);
    const Box part = blocks_of(other_box, reduction);
    into.sums.resize(place(whole.points()));
    for (std::size_t from = 0; from < other.sums.size(); ++from) {
      auto left = static_cast<std::int64_t>(from);
      std::int64_t to = 0;
      std::int64_t stride = 1;
      for (int k = part.rank - 1; k >= 0; --k) {
        to += (part.lower[place(k)] + left % part.extent(k) - whole.lower[place(k)]) * stride;
        left /= part.extent(k);
        stride *= whole.extent(k);
      }
      into.sums[place(to)] += other.sums[from];
    }
    return;
  }
  add(into.sum, into.rest, other.sum);
  into.rest += other.rest;
  add(into.imaginary, into.imaginary_rest, other.imaginary);
  into.imaginary_rest += other.imaginary_rest;
  into.integer_sum += other.integer_sum;
  const auto bounds = [&]<typename Number>(Number) {
    widen(first, std::bit_cast<Number>(other.least), std::bit_cast<Number>(other.greatest), into);
  };
  if (numbers == NumberClass::reals) bounds(double{});
  if (numbers == NumberClass::integers) bounds(std::int64_t{});
  if (numbers == NumberClass::whole) bounds(std::uint64_t{});
}

Result<Reduced> reduce(const NumberBox& numbers, const Box& part, const Reduction& reduction,
                       int threads) {
  return refusals_as_errors([&]() -> Result<Reduced> {
    const Reducer whole(numbers, part, reduction);
    const std::int64_t points = part.points();
    const std::int64_t shares = std::clamp<std::int64_t>(threads, 1, points);
    std::vector<Reduced> results(place(shares));
    for (Reduced& one : results) whole.make_room(one);
    const auto work = [&](std::int64_t share) {
      Reducer reducer(numbers, part, reduction);
      reducer.take(points * share / shares, points * (share + 1) / shares, results[place(share)]);
    };
    std::vector<std::jthread> others;
    std::int64_t mine = shares;
    for (std::int64_t share = 1; share < shares; ++share) {
      try {
        others.emplace_back(work, share);
      } catch (const std::system_error&) {  // without a thread the caller's takes the share
        mine = share;
        break;
      }
    }
    work(0);
    for (std::int64_t share = mine; share < shares; ++share) work(share);
    others.clear();
    Reduced all = std::move(results[0]);
    for (std::int64_t share = 1; share < shares; ++share) {
      merge(reduction, class_of(numbers.type.kind), part, results[place(share)], part, all);
    }
    return all;
  });
}

}  // namespace tranship::staging
