#include "datatypes/datatype_maker.hpp"

namespace tranship {
namespace {

/// Widens one bound. `is_set`: whether the bound was set by resized(); such bounds count alone.
template <typename Choose>
void widen(std::optional<std::int64_t>& bound, bool& is_set, std::int64_t value, bool value_is_set,
           const Choose& choose) {
  if (is_set && !value_is_set) return;
  const bool replaces = value_is_set && !is_set;
  bound = !bound || replaces ? value : choose(*bound, value);
  is_set = is_set || value_is_set;
}

}  // namespace

Status DatatypeMaker::add_block(std::int64_t length, __int128 displacement, const Datatype& base) {
  if (length < 0) return negative("block_length", length);
  if (Status s = add_bounds(length, displacement, base); !s) return s;
  elements(base.signature().repeated(length), base);
  return {};
}

void DatatypeMaker::elements(const Signature& signature, const Datatype& base) {
  made_.signature_ = made_.signature_.followed_by(signature);
  made_.alignment_ = std::max(made_.alignment_, base.alignment_);
}

Status DatatypeMaker::add_bounds(std::int64_t length, __int128 displacement, const Datatype& base) {
  if (length == 0) return {};
  const __int128 reach = static_cast<__int128>(length - 1) * base.extent();
  const __int128 down = displacement + std::min<__int128>(reach, 0);
  const __int128 up = displacement + std::max<__int128>(reach, 0);
  bytes_ += static_cast<__int128>(length) * base.bytes();
  for (const __int128 bound : {down + base.lower_, up + base.upper_, down + base.true_lower_bound(),
                               up + base.true_upper_bound(), bytes_}) {
    if (!fits(bound)) return too_large();
  }
  widen(lower_, made_.lower_is_set_, static_cast<std::int64_t>(down + base.lower_),
        base.lower_is_set_, [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  widen(upper_, made_.upper_is_set_, static_cast<std::int64_t>(up + base.upper_),
        base.upper_is_set_, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
  return {};
}

void DatatypeMaker::set_bounds(std::int64_t lower, std::int64_t upper) {
  lower_ = lower;
  upper_ = upper;
  made_.lower_is_set_ = true;
  made_.upper_is_set_ = true;
}

void DatatypeMaker::align() {
  if (made_.upper_is_set_ || !upper_) return;
  const std::int64_t over = (*upper_ - *lower_) % made_.alignment_;
  if (over != 0) *upper_ += made_.alignment_ - over;
}

Result<Datatype> DatatypeMaker::finish(TypeTree tree) {
  if (tree.node && tree.node->depth > Datatype::depth_max) {
    return Error{
        ErrorCode::unsupported,
        "the type is nested deeper than " + std::to_string(Datatype::depth_max) + " levels",
        "build it of fewer levels"};
  }
  if (tree.node && tree.node->places > Datatype::places_max) {
    return Error{ErrorCode::unsupported,
                 "the type lists " + std::to_string(tree.node->places) + " places",
                 "copy it in parts"};
  }
  made_.tree_ = std::move(tree);
  made_.lower_ = lower_.value_or(0);
  made_.upper_ = upper_.value_or(0);
  made_.kept_ = std::make_shared<Datatype::Kept>();
  return std::move(made_);
}

}  // namespace tranship
