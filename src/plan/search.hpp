// The full planner's search over paths and layouts (Isometry 4.2).
#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost.hpp"

namespace tranship {

/// A depth-first branch-and-bound search, the most promising step first, over all acyclic paths
/// from source to target with at most one self-loop, and over the hop that converts. A partial path
/// is pruned
/// - if its cost so far and the lower bound for the rest (the bound U of the paper, for every
/// memory
///   and every tile size) together are not below the best known time;
/// - if another path to the same memory costs no more and used only memories and resources that
///   this one used, too: every continuation of it is as good.
class FullSearch {
 public:
  FullSearch(const Graph& graph, const Task& task, Costs& costs);

  /// Adds a known candidate; the search only looks for faster ones.
  void consider(const Candidate& candidate);

  /// Searches.
  void run();

  /// Returns the complete candidates, the best first.
  std::vector<Candidate> found() const;

  /// Returns the least time of those.
  double seconds() const { return seconds_; }

  /// Returns the number of steps of the search, for measurements.
  int steps() const { return steps_; }

 private:
  /// Sums over the hops of a path, or lower bounds for them.
  struct Sums {
    BySize sum_s{};
    BySize beat_s{};
  };
  /// A partial path to a memory.
  struct Label {
    std::uint64_t memories = 0;
    std::uint64_t resources = 0;
    int first_function = -1;  ///< throughput function of the first channel
    bool converts_first = false;
    Sums plain;   ///< for tiles in which both orders are equal, so that no hop converts
    Sums common;  ///< for all other tiles
  };
  /// A possible next hop.
  struct Step {
    int channel = 0;
    bool converts = false;
    double at_least_s = 0;
  };
  static constexpr int steps_abreast_max = 128;

  void measure_rest();
  void visit(int memory, bool converted, const Sums& sums);
  int list_steps(int memory, bool converted, const Sums& sums, Step* steps);
  void take(const Step& step, bool converted, const Sums& sums);
  Sums after(const Sums& sums, int channel, bool converts);
  Sums whole_way(const Sums& sums, int memory, bool converted, bool done) const;
  bool ends(int channel, bool converted) const;
  bool may_beat(double seconds, const Sums& whole, int next, bool converted, bool done);
  Label label_of(bool& twice);
  bool no_worse(const Sums& a, const Sums& b) const;
  bool is_dominated(int memory, bool converted);
  bool may_pass(int memory) const;
  bool forced_elsewhere(int memory) const;

  const Graph& graph_;
  const Profile& profile_;
  const Task& task_;
  Costs& costs_;
  const Remaining& remaining_;
  std::vector<Sums> rest_converting_;  ///< from each memory to the target, converting on the way
  std::vector<int> arriving_;          ///< channels into the target
  std::vector<std::vector<Label>> labels_;
  bool may_dominate_ = false;
  Path path_;
  int converting_hop_ = -1;
  bool looped_ = false;  ///< a self-loop is on the path
  int hops_most_ = hops_max;
  std::vector<char> visited_;
  double seconds_ = INFINITY;
  std::vector<Candidate> found_;
  int steps_ = 0;
};

}  // namespace tranship
