// The full planner's search over paths and layouts (Isometry 4.2).
#pragma once

#include <vector>

#include "plan/cost.hpp"

namespace tranship {

/// Depth first over all acyclic paths from source to target, with at most one self-loop, and over
/// the hop that converts. A way is given up as soon as it cannot take less time than the best that
/// is known: what it has cost so far, and what the rest of the way costs at least (the bound U),
/// are known for every size of a tile.
class FullSearch {
 public:
  FullSearch(const Graph& graph, const Task& task, Costs& costs);

  /// What is already known; the search only goes where it may be beaten.
  void consider(const Candidate& candidate);

  void run();

  /// The ways that were laid out in full, the best first.
  std::vector<Candidate> found() const;

  /// Steps of the search, for measuring.
  int steps() const { return steps_; }

 private:
  /// Sums over the hops so far.
  struct Sums {
    BySize sum_s{};
    BySize beat_s{};
  };
  void visit(int memory, bool converted, const Sums& sums);
  void step(int channel, bool converts, bool converted, const Sums& sums);
  bool may_pass(int memory) const;
  bool forced_elsewhere(int memory) const;

  const Graph& graph_;
  const Profile& profile_;
  const Task& task_;
  Costs& costs_;
  const Remaining& remaining_;
  Path path_;
  int converting_hop_ = -1;
  int hops_most_ = hops_max;
  std::vector<char> visited_;
  double seconds_ = INFINITY;
  std::vector<Candidate> found_;
  int steps_ = 0;
};

}  // namespace tranship
