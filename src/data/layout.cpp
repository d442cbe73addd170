#include "data/layout.hpp"

#include <algorithm>
#include <charconv>

namespace tranship {
namespace {

Error bad(std::string message, std::string hint = {}) {
  return Error{ErrorCode::invalid_argument, std::move(message), std::move(hint)};
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_name(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || is_digit(c); });
}

Result<Term> parse_term(std::string_view text, std::string_view whole) {
  const auto colon = text.find(':');
  const std::string_view name = trimmed(text.substr(0, colon));
  if (!is_name(name)) {
    return bad("layout \"" + std::string(whole) + "\": \"" + std::string(text) + "\" is not a term",
               "write F, a dimension, or a dimension with a block, as in x:4");
  }
  Term term;
  if (name != "F") term.dimension = name;
  if (colon == std::string_view::npos) return term;
  const std::string_view digits = trimmed(text.substr(colon + 1));
  const auto [end, status] =
      std::from_chars(digits.data(), digits.data() + digits.size(), term.block);
  if (status != std::errc() || end != digits.data() + digits.size() || term.block < 1) {
    return bad("layout \"" + std::string(whole) + "\": the block of \"" + std::string(text) +
               "\" must be a positive whole number");
  }
  if (term.dimension.empty()) {
    return bad("layout \"" + std::string(whole) + "\": the field space F cannot be blocked");
  }
  return term;
}

}  // namespace

Result<Layout> Layout::parse(std::string_view text) {
  std::vector<Term> terms;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    auto term = parse_term(trimmed(text.substr(start, comma - start)), text);
    if (!term) return term.error();
    terms.push_back(std::move(*term));
    start = comma + 1;
  }
  const auto is_fields = [](const Term& term) { return term.dimension.empty(); };
  const auto fields = std::count_if(terms.begin(), terms.end(), is_fields);
  if (fields > 1) return bad("layout \"" + std::string(text) + "\" names F more than once");
  if (fields == 0) terms.insert(terms.begin(), Term{});
  return Layout(std::move(terms));
}

std::string Layout::to_string() const {
  std::string text;
  for (const Term& term : terms_) {
    if (!text.empty()) text += ", ";
    text += term.dimension.empty() ? "F" : term.dimension;
    if (term.block > 0) text += ":" + std::to_string(term.block);
  }
  return text;
}

std::string names_of(const IndexSpace& space) {
  std::string names;
  for (const Dimension& dimension : space) names += (names.empty() ? "" : ", ") + dimension.name;
  return names.empty() ? "none" : names;
}

Status Layout::check(const IndexSpace& space) const {
  const auto known = [&](const Term& term) {
    return term.dimension.empty() ||
           std::any_of(space.begin(), space.end(),
                       [&](const Dimension& d) { return d.name == term.dimension; });
  };
  for (const Term& term : terms_) {
    if (!known(term)) {
      return bad("layout \"" + to_string() + "\" names dimension \"" + term.dimension +
                     "\", which the array does not have",
                 "its dimensions are " + names_of(space));
    }
  }
  for (const Dimension& dimension : space) {
    const auto mine = [&](const Term& t) { return t.dimension == dimension.name; };
    const auto whole = [&](const Term& t) { return mine(t) && t.block == 0; };
    if (std::count_if(terms_.begin(), terms_.end(), whole) != 1) {
      return bad("layout \"" + to_string() + "\" must name dimension \"" + dimension.name +
                 "\" exactly once without a block");
    }
    if (std::count_if(terms_.begin(), terms_.end(), mine) > levels_max) {
      return bad("layout \"" + to_string() + "\" splits dimension \"" + dimension.name +
                 "\" into more than " + std::to_string(levels_max) + " parts");
    }
  }
  const auto is_fields = [](const Term& t) { return t.dimension.empty(); };
  if (std::count_if(terms_.begin(), terms_.end(), is_fields) != 1) {
    return bad("layout \"" + to_string() + "\" must name F exactly once");
  }
  return {};
}

}  // namespace tranship
