#include "engine/prepared_copy.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/at.hpp"
#include "engine/checks.hpp"
#include "engine/recipe/recipes.hpp"

namespace tranship {
namespace {

std::string types_of(const Array& array) {
  std::string text;
  for (const Placement& placement : array.view.mapping->fields()) {
    text += (text.empty() ? "" : ", ") + placement.field.name + ": " + placement.field.type;
  }
  return text;
}

std::string strides_of(const Array& array) {
  const Mapping& mapping = *array.view.mapping;
  if (!mapping.strided()) return mapping.layout().to_string();
  std::string text = "strides of";
  for (int k = 0; k < mapping.rank(); ++k) {
    text += " " + std::to_string(mapping.fields()[0].dimension[at(k)].level[0].stride);
  }
  return text + " bytes";
}

std::string memory_of(const Array& array) {
  std::string text = to_string(array.memory_kind);
  if (array.memory_kind == MemoryKind::device) text += std::to_string(array.device);
  return array.liveness ? text + " of another process" : text;
}

bool same_types(const Mapping& a, const Mapping& b) {
  return std::equal(
      a.fields().begin(), a.fields().end(), b.fields().begin(), b.fields().end(),
      [](const Placement& one, const Placement& other) { return one.field == other.field; });
}

/// The extents of a whole array, such as "4 x 5".
std::string extents_of(const Array& array) {
  std::string text;
  for (const Dimension& dimension : array.view.mapping->space()) {
    text += (text.empty() ? "" : " x ") + std::to_string(dimension.extent);
  }
  return text;
}

/// Whether all points of two views of the same extents lie at the same offsets. The stride of a
/// dimension of which only the first index is used may be any: NumPy leaves it undefined.
bool same_places(const View& a, const View& b) {
  if (a.mapping->key() == b.mapping->key()) return true;
  const bool nothing = a.points() == 0;
  const IndexSpace& space = a.mapping->space();
  const bool same_space = std::equal(space.begin(), space.end(), b.mapping->space().begin(),
                                     [](const Dimension& one, const Dimension& other) {
                                       return one.name == other.name && one.extent == other.extent;
                                     });
  if (!same_space || !a.mapping->strided() || !b.mapping->strided()) return false;
  const auto& fields = a.mapping->fields();
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Placement& one = fields[f];
    const Placement& other = b.mapping->fields()[f];
    if (one.offset != other.offset) return false;
    for (std::size_t k = 0; k < at(a.mapping->rank()); ++k) {
      const bool used = !nothing && (a.extents[k] > 1 || a.lower[k] != 0 || b.lower[k] != 0);
      if (used && one.dimension[k] != other.dimension[k]) return false;
    }
  }
  return true;
}

/// Checks that an array may stand for the one that a copy was prepared for.
/// @error invalid_argument, with what differs
Status check_like(const Array& given, const Array& prepared, const char* side) {
  const auto differs = [&](const char* what, const std::string& is, const std::string& was) {
    return invalid(std::string("the ") + side + " differs in " + what +
                       " from the one that the copy was prepared for: " + is + " instead of " + was,
                   "prepare a copy for these arrays");
  };
  const View& a = given.view;
  const View& b = prepared.view;
  if (given.memory_kind != prepared.memory_kind || given.device != prepared.device ||
      given.opened_for != prepared.opened_for ||
      (given.liveness == nullptr) != (prepared.liveness == nullptr)) {
    return differs("memory", memory_of(given), memory_of(prepared));
  }
  if (a.mapping->rank() != b.mapping->rank() || a.extents != b.extents) {
    return differs("shape", box_text(given), box_text(prepared));
  }
  if (a.mapping == b.mapping && a.lower == b.lower) return {};
  if (!same_types(*a.mapping, *b.mapping))
    return differs("type", types_of(given), types_of(prepared));
  if (extents_of(given) != extents_of(prepared)) {
    return differs("shape", extents_of(given), extents_of(prepared));
  }
  if (!same_places(a, b) || a.lower != b.lower || given.named != prepared.named) {
    return differs("layout", strides_of(given), strides_of(prepared));
  }
  return {};
}

std::vector<std::int64_t> kept(std::span<const std::int64_t> list) {
  return {list.begin(), list.end()};
}

using CheckEnds = std::function<Status(const CopyPair&)>;

/// Returns the check of other arrays that have the shape and type of the prepared ones. request: It
/// has one pair.
CheckEnds check_of(const CopyRequest& request) {
  if (const auto* pages = std::get_if<PageLists>(&request.parts)) {
    return [from = kept(pages->source), to = kept(pages->target)](const CopyPair& given) {
      return check_pages(given.source, given.target, from, to);
    };
  }
  if (const auto* pieces = std::get_if<PieceLists>(&request.parts)) {
    return [from = kept(pieces->source_offsets), to = kept(pieces->target_offsets),
            lengths = kept(pieces->lengths)](const CopyPair& given) {
      return check_pieces(given, {from, to, lengths});
    };
  }
  if (const auto* types = std::get_if<std::span<const TypePair>>(&request.parts)) {
    return [pair = types->front()](const CopyPair& given) { return check_types(given, pair); };
  }
  return [](const CopyPair& given) -> Status {
    auto view = matched_target(given.source, given.target);
    return view ? check_overlap(given.source, given.target, *view) : Status(view.error());
  };
}

}  // namespace

struct PreparedCopy::State {
  Recipe recipe;
  std::vector<CopyPair> pairs;
  CheckEnds check_ends;     ///< null: there are several pairs
  bool has_pinned = false;  ///< One of the arrays is pinned, and may be unpinned later.

  /// @error as Engine::start()
  Status check(const CopyPair& given) const {
    const auto& [source, target] = given;
    if (!check_ends) {
      return invalid("a prepared list of copies is started on its own arrays alone",
                     "leave out source and target, or prepare the copies one by one");
    }
    if (Status s = check_like(source, pairs[0].source, "source"); !s) return s;
    if (Status s = check_like(target, pairs[0].target, "target"); !s) return s;
    if (Status s = check_writable(target); !s) return s;
    return check_ends(given);
  }
};

PreparedCopy::PreparedCopy(Recipe recipe, const CopyRequest& request) {
  State state{std::move(recipe), {request.pairs.begin(), request.pairs.end()}, nullptr};
  if (state.pairs.size() == 1) state.check_ends = check_of(request);
  state.has_pinned = std::ranges::any_of(state.pairs, [](const CopyPair& pair) {
    return pair.source.memory_kind == MemoryKind::pinned ||
           pair.target.memory_kind == MemoryKind::pinned;
  });
  state_ = std::make_shared<const State>(std::move(state));
}

Result<Event> PreparedCopy::start(const Carriers& carriers, const StartOptions& options) const {
  if (state_->has_pinned) {
    for (const CopyPair& pair : state_->pairs) {
      if (Status status = carriers.check_pinned(pair); !status) return status.error();
    }
  }
  return carriers.start(state_->recipe, state_->pairs, options,
                        std::const_pointer_cast<State>(state_));
}

Result<Event> PreparedCopy::start(const Carriers& carriers, const CopyPair& ends,
                                  const StartOptions& options) const {
  if (Status status = state_->check(ends); !status) return status.error();
  if (Status status = carriers.check_pinned(ends); !status) return status.error();
  return carriers.start(state_->recipe, {&ends, 1}, options);
}

std::optional<Event> PreparedCopy::start_now(const Carriers& carriers,
                                             const StartOptions& options) const {
  if (state_->recipe.steps.size() != 1) return {};
  const auto& [source, target] = state_->pairs[state_->recipe.steps[0].base];
  return carriers.start_now(state_->recipe, source, target, options);
}

const CopyPair* PreparedCopy::ends() const {
  return state_->pairs.empty() ? nullptr : state_->pairs.data();
}

std::shared_ptr<const Plan> PreparedCopy::plan() const { return state_->recipe.plan(); }

std::int64_t PreparedCopy::bytes() const { return state_->recipe.bytes(); }

}  // namespace tranship
