// Copies that are checked and planned once, and started again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/page_lowering.hpp"
#include "data/piece_lowering.hpp"
#include "engine/copy_lists.hpp"
#include "engine/copy_types.hpp"

namespace tranship {

/// What one start of a prepared copy asks for. The members mean what they mean in CopyOptions.
struct StartOptions {
  std::vector<Event> after;
  std::optional<std::uintptr_t> stream;
  int stream_device = -1;
  bool in_order = false;
  bool (*interrupted)() = nullptr;
};

/// A copy with its plan and, where one hop of a GPU carries it, with its kernels and their table on
/// the GPU. A value, whose copies share all of that; it keeps its arrays alive, and so does each
/// start until it has ended. The engine must outlive it. Threads: all; starts may overlap.
class PreparedCopy {
 public:
  /// The arrays' memories are known (is_resolved()).
  /// @error as Engine::prepare(), Engine::prepare_all() and so on
  static Result<PreparedCopy> of_pair(CopyRunner& runner, CopyPair ends,
                                      const CopyOptions& options);
  static Result<PreparedCopy> of_pairs(CopyRunner& runner, std::vector<CopyPair> pairs,
                                       const CopyOptions& options);
  static Result<PreparedCopy> of_pages(CopyRunner& runner, CopyPair ends, const PageLists& pages,
                                       const CopyOptions& options);
  static Result<PreparedCopy> of_pieces(CopyRunner& runner, CopyPair ends, const PieceLists& pieces,
                                        const CopyOptions& options);

  static Result<PreparedCopy> of_types(CopyRunner& runner, std::vector<TypedPair> pairs,
                                       const CopyOptions& options);

  /// @error as Engine::start()
  Result<Event> start(const StartOptions& options) const;
  Result<Event> start(const CopyPair& ends, const StartOptions& options) const;
  /// As Engine::start_now().
  std::optional<Event> start_now(const StartOptions& options) const;

  /// Returns the arrays that it was prepared for; the first of several pairs. Null: there are none.
  const CopyPair* ends() const;
  /// The plan of the first copy, or of all if one launch carries them; null: nothing is copied.
  std::shared_ptr<const Plan> plan() const;
  std::int64_t bytes() const;

 private:
  struct State;
  explicit PreparedCopy(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  /// Returns a copy of lists that are planned, which other arrays may be given for if `check` takes
  /// them.
  static Result<PreparedCopy> of_list(CopyRunner& runner, CopyPair ends, ListPlan planned,
                                      IndexedCopy indexed, const CopyOptions& options,
                                      std::function<Status(const CopyPair&)> check);
  static Result<Event> start_joined(const std::shared_ptr<const State>& state,
                                    const CopyOptions& options);

  std::shared_ptr<const State> state_;
};

}  // namespace tranship
