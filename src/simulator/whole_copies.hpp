// Whole copies, as in an engine with single-hop transfers only (Isometry 5.1 and 6.1): one hop
// after another, with whole instances as intermediate buffers and a fixed number of copier threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "runtime/buffer_pool.hpp"
#include "runtime/buffer_queue.hpp"
#include "simulator/hardware.hpp"
#include "simulator/routes.hpp"

namespace tranship {

/// Runs whole copies. A copy first gets all its intermediate instances together. A hop begins when
/// the hop before it has ended and a copier of its source's node is free, by priority and then age.
/// Without copiers each hop goes to the engine's own scheduler at once. Instances have budgets of
/// their own, as large as those of the engine's buffers. Threads: one.
class WholeCopies {
 public:
  /// Requests that a copier keeps in flight, so that one copier alone keeps its channel busy.
  static constexpr int requests_in_flight = 2;

  /// One hop that begins now. The caller passes it to hop_ended() when it has ended.
  struct Hop {
    int copy = 0;
    std::size_t number = 0;  ///< index in the route's plans
  };
  struct Options {
    int copiers = 0;  ///< copiers of each node; 0: unlimited
    std::function<void(const Hop&)> begin;
    std::function<void(int copy)> ended;
  };
  WholeCopies(Hardware& hardware, Options options);
  ~WholeCopies();

  /// A copy, with a number that the caller chooses.
  struct Copy {
    int number = 0;
    int priority = 0;
    NodePair nodes;
    const Route* route = nullptr;
  };
  void add(const Copy& copy);
  void hop_ended(const Hop& hop);

 private:
  struct State : BufferWaiter {
    Copy copy;
    std::size_t hop = 0;  ///< number of the hop that runs or is next
    int copier_node = 0;  ///< node whose copier carries that hop
  };
  struct GoesBefore {
    bool operator()(const State* a, const State* b) const {
      return a->priority != b->priority ? a->priority > b->priority : a->age < b->age;
    }
  };
  struct Node {
    int busy = 0;
    std::set<State*, GoesBefore> waiting;
  };

  void line_up_granted();
  void line_up(State& state);
  void dispatch(int node);

  Hardware& hardware_;
  Options options_;
  BufferPool pool_;
  int memories_ = 0;  ///< number of memories in the pool
  BufferQueue instances_;
  std::vector<BufferWaiter*> granted_;
  std::unordered_map<int, std::unique_ptr<State>> copies_;
  std::unordered_map<int, Node> nodes_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace tranship
