// Types of parts of arrays: boxes, and the shares of processes.
#include <algorithm>

#include "base/at.hpp"
#include "datatypes/datatype.hpp"
#include "datatypes/datatype_maker.hpp"

namespace tranship {
namespace {

using Kind = Distribution::Kind;

/// One dimension of a part: the ranges of indices that belong to it, which are `blocks` of
/// `length`, `step` apart, and one of `rest` behind them.
struct Share {
  std::int64_t begin = 0;
  std::int64_t blocks = 1;
  std::int64_t length = 0;
  std::int64_t step = 0;
  std::int64_t rest = 0;

  std::int64_t indices() const { return blocks * length + rest; }
};

std::string sizes_text(std::span<const std::int64_t> sizes) {
  constexpr std::size_t shown = 6;
  std::string text = "[";
  for (std::size_t k = 0; k < std::min(sizes.size(), shown); ++k) {
    text += (k == 0 ? "" : ", ") + std::to_string(sizes[k]);
  }
  return text + (sizes.size() > shown ? ", ...]" : "]");
}

Error invalid_dimension(const char* what, std::size_t dimension, const std::string& is,
                        const std::string& hint) {
  std::string message = what;
  message += " of dimension " + std::to_string(dimension) + " ";
  return {ErrorCode::invalid_argument, message + is, hint};
}

/// Returns the type of the indices that `shares` name of an array of these sizes.
Result<Datatype> part_of_array(std::string text, std::span<const std::int64_t> sizes,
                               const std::vector<Share>& shares, ArrayOrder order,
                               const Datatype& base) {
  DatatypeMaker maker(std::move(text));
  TypeTree tree = base.tree();
  __int128 items = 1;
  __int128 pitch = base.extent();
  for (std::size_t turn = 0; turn < sizes.size(); ++turn) {
    const std::size_t k = order == ArrayOrder::c ? sizes.size() - 1 - turn : turn;
    const Share& share = shares[k];
    const __int128 whole = pitch * sizes[k];
    items *= share.indices();
    if (!DatatypeMaker::fits(whole) || !DatatypeMaker::fits(items) ||
        !DatatypeMaker::fits(items * base.bytes())) {
      return DatatypeMaker::too_large();
    }
    const auto step = static_cast<std::int64_t>(pitch);
    const TypeTree block = TypeTree::loop(share.length, step, tree);
    const TypeTree blocks = TypeTree::loop(share.blocks, step * share.step, block);
    const TypeTree rest =
        TypeTree::loop(share.rest, step, tree).shifted(step * share.step * share.blocks);
    tree = TypeTree::sequence({blocks, rest}).shifted(step * share.begin);
    pitch = whole;
  }
  const __int128 reach = pitch < 0 ? -pitch : pitch;
  if (!DatatypeMaker::fits(reach + base.true_upper_bound()) ||
      !DatatypeMaker::fits(base.true_lower_bound() - reach)) {
    return DatatypeMaker::too_large();
  }
  maker.elements(base.signature().repeated(static_cast<std::int64_t>(items)), base);
  maker.set_bounds(0, static_cast<std::int64_t>(pitch));
  return maker.finish(tree);
}

/// Returns the share of one of `processes`, number `coordinate`, of a dimension.
/// @error invalid_argument
Result<Share> share_of(std::size_t dimension, std::int64_t size, const Distribution& given,
                       std::int64_t processes, std::int64_t coordinate) {
  if (given.argument < 0) {
    return invalid_dimension("the argument of the distribution", dimension, "is negative",
                             "give the number of indices of a block, or 0 for the default");
  }
  if (given.kind == Kind::none) {
    if (processes == 1) return Share{0, 1, size, size, 0};
    return invalid_dimension(
        "the grid", dimension,
        "has " + std::to_string(processes) + " processes, and the dimension is not distributed",
        "give it one process");
  }
  const bool cyclic = given.kind == Kind::cyclic;
  const std::int64_t even = size / processes + (size % processes == 0 ? 0 : 1);
  const std::int64_t length = given.argument > 0 ? given.argument : (cyclic ? 1 : even);
  const __int128 step = static_cast<__int128>(length) * processes;
  if (!cyclic && step < size) {
    return invalid_dimension("the blocks", dimension,
                             "of " + std::to_string(length) + " indices do not cover " +
                                 std::to_string(size) + " with " + std::to_string(processes) +
                                 " processes",
                             "give longer blocks");
  }
  if (length >= size) return coordinate == 0 ? Share{0, 1, size, size, 0} : Share{0, 0, 0, 0, 0};
  const __int128 first = static_cast<__int128>(coordinate) * length;
  if (first >= size) return Share{0, 0, 0, 0, 0};
  const auto begin = static_cast<std::int64_t>(first);
  const std::int64_t left = size - begin;
  if (!cyclic || step >= left) {
    return Share{begin, 1, std::min(length, left), size, 0};  // one block
  }
  const auto turn = static_cast<std::int64_t>(step);
  const std::int64_t blocks = left / turn + (left % turn >= length ? 1 : 0);
  const std::int64_t rest = left % turn >= length ? 0 : left % turn;
  return Share{begin, blocks, length, turn, rest};
}

}  // namespace

Result<Datatype> Datatype::subarray(std::span<const std::int64_t> sizes,
                                    std::span<const std::int64_t> subsizes,
                                    std::span<const std::int64_t> starts, ArrayOrder order,
                                    const Datatype& base) {
  if (sizes.size() != subsizes.size() || sizes.size() != starts.size()) {
    return Error{ErrorCode::invalid_argument,
                 "sizes, subsizes and starts have " + std::to_string(sizes.size()) + ", " +
                     std::to_string(subsizes.size()) + " and " + std::to_string(starts.size()) +
                     " dimensions",
                 "give as many of each"};
  }
  std::vector<Share> shares;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (subsizes[k] < 0 || starts[k] < 0 || subsizes[k] > sizes[k] ||
        starts[k] > sizes[k] - subsizes[k]) {
      std::string is = "[";
      is += std::to_string(starts[k]) + ", " + std::to_string(starts[k]) + " + " +
            std::to_string(subsizes[k]) + ") lies outside [0, " + std::to_string(sizes[k]) + ")";
      return invalid_dimension("the box", k, is, "give a box inside the array");
    }
    shares.push_back({starts[k], 1, subsizes[k], 0, 0});
  }
  return part_of_array("subarray(" + sizes_text(sizes) + ", " + sizes_text(subsizes) + ", " +
                           sizes_text(starts) + (order == ArrayOrder::c ? ", " : ", order=F, ") +
                           base.text() + ")",
                       sizes, shares, order, base);
}

Result<Datatype> Datatype::darray(std::int64_t rank, std::span<const std::int64_t> sizes,
                                  std::span<const Distribution> distributions,
                                  std::span<const std::int64_t> grid, ArrayOrder order,
                                  const Datatype& base) {
  if (sizes.size() != distributions.size() || sizes.size() != grid.size()) {
    return Error{ErrorCode::invalid_argument,
                 "sizes, distributions and the grid have " + std::to_string(sizes.size()) + ", " +
                     std::to_string(distributions.size()) + " and " + std::to_string(grid.size()) +
                     " dimensions",
                 "give as many of each"};
  }
  __int128 processes = 1;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] < 0) return invalid_dimension("the size", k, "is negative", "give 0 or more");
    if (grid[k] < 1) return invalid_dimension("the grid", k, "is empty", "give 1 or more");
    processes = std::min<__int128>(processes * grid[k], __int128{1} << 62);
  }
  if (rank < 0 || rank >= processes) {
    return Error{ErrorCode::invalid_argument,
                 "rank=" + std::to_string(rank) + " is not a process of a grid of " +
                     std::to_string(static_cast<std::int64_t>(processes)),
                 "give a number below that"};
  }
  std::vector<Share> shares(sizes.size());
  std::int64_t left = rank;
  for (std::size_t k = sizes.size(); k-- > 0;) {
    auto share = share_of(k, sizes[k], distributions[k], grid[k], left % grid[k]);
    if (!share) return share.error();
    shares[k] = *share;
    left /= grid[k];
  }
  return part_of_array("darray(" + std::to_string(rank) + ", " + sizes_text(sizes) +
                           ", grid=" + sizes_text(grid) +
                           (order == ArrayOrder::c ? ", " : ", order=F, ") + base.text() + ")",
                       sizes, shares, order, base);
}

}  // namespace tranship
