// Where the bytes of a type lie, as it was built: runs, loops, lists and sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tranship {

struct TypeNode;

/// A part of a type at its place. A value; parts share their nodes.
struct TypeTree {
  std::int64_t offset = 0;                         ///< bytes
  std::shared_ptr<const TypeNode> node = nullptr;  ///< null: no bytes

  /// A contiguous run of that many bytes.
  static TypeTree run(std::int64_t bytes);
  /// The part `count` times, `stride` bytes apart.
  static TypeTree loop(std::int64_t count, std::int64_t stride, const TypeTree& part);
  /// The part at each of several displacements, in bytes, in this order.
  static TypeTree list(const std::vector<std::int64_t>& displacements, const TypeTree& part);
  /// One part after the other. Runs that touch become one.
  static TypeTree sequence(const std::vector<TypeTree>& parts);

  TypeTree shifted(std::int64_t by) const { return {offset + by, node}; }
  std::int64_t bytes() const;
};

/// One node of a type's tree. Immutable, shared between types and threads.
struct TypeNode {
  enum class Kind { run, loop, list, sequence };
  Kind kind = Kind::run;
  std::int64_t bytes = 0;   ///< of data
  std::int64_t runs = 1;    ///< upper bound of the contiguous runs; at most runs_most
  std::int64_t lower = 0;   ///< lowest byte that it touches
  std::int64_t upper = 0;   ///< one past the highest
  std::int64_t stated = 1;  ///< numbers that state it: lists count as long as they are
  std::int64_t places = 1;  ///< parts that remain if loops are not unrolled; at most runs_most
  int depth = 0;            ///< nodes between this one and its runs
  std::int64_t count = 1;   ///< of a loop
  std::int64_t stride = 0;  ///< of a loop, in bytes
  std::vector<std::int64_t> displacements{};  ///< of a list
  std::vector<TypeTree> parts{};              ///< one, of a loop or a list (at offset 0); several

  /// Counts of runs do not grow beyond this number.
  static constexpr std::int64_t runs_most = std::int64_t{1} << 60;
};

/// A contiguous run of a type's bytes.
struct TypeRun {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool operator==(const TypeRun&) const = default;
};

/// Appends the runs of a type in the order of its elements. Runs that touch are one.
void append_runs(const TypeTree& tree, std::vector<TypeRun>& runs);

}  // namespace tranship
