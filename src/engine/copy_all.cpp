#include "engine/copy_all.hpp"

#include <algorithm>
#include <utility>

#include "base/at.hpp"

#include "data/lowering.hpp"
#include "engine/checks.hpp"
#include "engine/copy_order.hpp"
#include "engine/spare_copy.hpp"

namespace tranship {
namespace {

/// Whether the nests differ from those of `group` in where they begin alone, all by as much.
bool same_shapes(std::span<const IndexedNest> group, std::span<const LoopNest> nests) {
  if (group.size() != nests.size()) return false;
  const std::int64_t source = nests[0].source_offset - group[0].nest.source_offset;
  const std::int64_t target = nests[0].target_offset - group[0].nest.target_offset;
  for (std::size_t k = 0; k < nests.size(); ++k) {
    const LoopNest& a = group[k].nest;
    const LoopNest& b = nests[k];
    const bool same = a.element_bytes == b.element_bytes && a.rank == b.rank &&
                      b.source_offset - a.source_offset == source &&
                      b.target_offset - a.target_offset == target &&
                      std::equal(a.loops.begin(), a.loops.begin() + a.rank, b.loops.begin());
    if (!same) return false;
  }
  return true;
}

bool same_view(const View& a, const View& b) {
  return a.mapping == b.mapping && a.lower == b.lower && a.extents == b.extents;
}

/// The nests of a pair, which count from its own addresses. Pairs of the same shapes that follow
/// each other are checked and lowered once.
class LoweredPair {
 public:
  /// @error as check_pair() and check_overlap()
  Status set(const CopyPair& pair) {
    const auto& [source, target] = pair;
    const bool known = like_ != nullptr && same_view(source.view, like_->source.view) &&
                       same_view(target.view, like_->target.view) && target.writable &&
                       source.named == like_->source.named && target.named == like_->target.named;
    if (!known) {
      if (Status s = lower_anew(pair); !s) return s;
    } else if (Status s = check_liveness(source.liveness, target.liveness); !s) {
      return s;
    }
    return check_overlap(source, target, target_view_);
  }

  std::span<const LoopNest> nests() const { return nests_; }

 private:
  Status lower_anew(const CopyPair& pair) {
    like_ = nullptr;
    auto view = check_pair(pair.source, pair.target);
    if (!view) return view.error();
    target_view_ = std::move(*view);
    const View& source = pair.source.view;
    auto fields = match_fields(*source.mapping, *target_view_.mapping);
    if (!fields) return fields.error();
    nests_.clear();
    lower({source.mapping.get(), source.lower}, {target_view_.mapping.get(), target_view_.lower},
          source.extents, *fields, nests_);
    like_ = &pair;
    return {};
  }

  const CopyPair* like_ = nullptr;  ///< the pair that was lowered; null: none
  View target_view_;
  std::vector<LoopNest> nests_;
};

/// Adds nests to `copy` that count from the addresses of one pair, with offsets that count from
/// those of another pair. Neighbours of one shape share a list. `nests` is scratch.
void append(const CopyPair& pair, std::span<const LoopNest> lowered, const CopyPair& base,
            std::vector<LoopNest>& nests, IndexedCopy& copy) {
  nests.assign(lowered.begin(), lowered.end());
  if (nests.empty()) return;
  for (LoopNest& nest : nests) {
    nest.source_offset += pair.source.place.address - base.source.place.address;
    nest.target_offset += pair.target.place.address - base.target.place.address;
  }
  const bool one_run = nests.size() == 1 && nests[0].rank == 0;
  const auto group = copy.last_group();
  if (group.empty() || !same_shapes(group, nests)) {
    const std::int64_t step = one_run ? nests[0].element_bytes : 0;
    copy.begin_group(nests, step, step, false);  // of arrays that know nothing of each other
    copy.add_move(0, 0);
    return;
  }
  const LoopNest& first = group[0].nest;
  // Moves of more than a run have no step from one to the next, and stay entries of their own.
  copy.add_move(nests[0].source_offset - first.source_offset,
                nests[0].target_offset - first.target_offset, one_run ? 0 : 1);
}

/// What keeps all of them alive, and says at the end whether they were.
class Guards {
 public:
  Status add(const CopyPair& pair) {
    auto leases = leases_of(pair.source, pair.target);
    if (!leases) return leases.error();
    for (auto& lease : *leases) held_.push_back(std::move(lease));
    for (const Array* array : {&pair.source, &pair.target}) {
      if (!held(array->owner)) held_.push_back(array->owner);
      if (array->liveness && (lives_.empty() || lives_.back() != array->liveness)) {
        lives_.push_back(array->liveness);
      }
    }
    return {};
  }

  void give_to(GpuFlight& flight) {
    flight.hold(std::move(held_));
    if (lives_.empty()) return;
    flight.check_at_end([lives = std::move(lives_)] {
      for (const auto& life : lives) {
        if (Status status = life->check(); !status) return status;
      }
      return Status{};
    });
  }

 private:
  /// One of the last two, as owners of sources and targets take turns.
  bool held(const std::shared_ptr<void>& owner) const {
    const std::size_t count = held_.size();
    return (count > 0 && held_[count - 1] == owner) || (count > 1 && held_[count - 2] == owner);
  }

  Leases held_;
  std::vector<std::shared_ptr<const Liveness>> lives_;
};

}  // namespace

Result<std::shared_ptr<const Plan>> join(CopyRunner& runner, std::span<const CopyPair> pairs,
                                         const CopyOptions& options, IndexedCopy& copy) {
  const std::shared_ptr<const Plan> none;
  if (pairs.size() < 2) return none;
  const auto& largest =
      *std::max_element(pairs.begin(), pairs.end(), [](const CopyPair& a, const CopyPair& b) {
        return a.source.view.bytes() < b.source.view.bytes();
      });
  auto query = runner.planner().query_of(largest.source, largest.target, options);
  if (!query) return query.error();
  auto plan = runner.planner().plan_of(*query);
  if (!plan) return plan.error();
  const bool alike = std::all_of(pairs.begin(), pairs.end(), [&](const CopyPair& pair) {
    return same_place(pair.source, largest.source) && same_place(pair.target, largest.target);
  });
  if (!runner.one_gpu_hop(**plan) || !alike) return none;
  std::vector<LoopNest> nests;
  LoweredPair lowered;
  for (const CopyPair& pair : pairs) {
    if (Status s = lowered.set(pair); !s) return s.error();
    append(pair, lowered.nests(), pairs[0], nests, copy);
  }
  copy.finish();
  auto made = std::make_shared<Plan>(**plan);
  made->nests.clear();
  made->bytes = copy.bytes();
  return std::shared_ptr<const Plan>(std::move(made));
}

Result<Event> start_joined(CopyRunner& runner, const std::shared_ptr<const Plan>& plan,
                           std::span<const CopyPair> pairs, const CopyOptions& options,
                           const Cargo& cargo) {
  Guards guards;
  for (const CopyPair& pair : pairs) {
    if (Status s = guards.add(pair); !s) return s.error();
  }
  auto event = runner.start_on_gpu(plan, pairs[0].source, pairs[0].target, options, {}, cargo);
  if (event && event->flight()) guards.give_to(*event->flight());
  return event;
}

Result<Event> copy_all(CopyRunner& runner, std::span<const CopyPair> pairs,
                       const CopyOptions& options) {
  if (CopyRunner::must_be_queued(options)) return copy_each(runner, pairs, options);
  SpareCopy spare;
  const auto plan = join(runner, pairs, options, spare.copy());
  if (!plan) return plan.error();
  if (!*plan) return copy_each(runner, pairs, options);
  return start_joined(runner, *plan, pairs, options, {.indexed = &spare.copy()});
}

Result<Event> copy_each(CopyRunner& runner, std::span<const CopyPair> pairs,
                        const CopyOptions& given) {
  CopyOptions options = given;
  options.among_others = pairs.size() > 1;
  const auto start = [&](std::size_t k) {
    return runner.copy(pairs[k].source, pairs[k].target, options);
  };
  return start_each(runner, options, pairs.size(), start, starting_order(pairs));
}

Result<Event> start_each(CopyRunner& runner, const CopyOptions& options, std::size_t count,
                         const std::function<Result<Event>(std::size_t)>& start,
                         std::span<const std::size_t> order) {
  if (count == 0) return runner.carry_nothing(std::make_shared<const Plan>(), {}, {}, options);
  std::vector<Event> events;
  for (std::size_t n = 0; n < count; ++n) {
    const std::size_t k = order.empty() ? n : order[n];
    auto event = start(k);
    if (!event) {
      for (const Event& started : events) started.cancel();
      for (const Event& started : events) (void)started.wait({});
      return event.error();
    }
    const bool over = event->ended_well() || (event->done() && event->wait({}));
    if (k == 0) {
      events.insert(events.begin(), std::move(*event));  // all of them have the first one's plan
    } else if (!over) {
      events.push_back(std::move(*event));
    }
  }
  return events.size() == 1 ? std::move(events[0]) : Event(std::move(events));
}

}  // namespace tranship
