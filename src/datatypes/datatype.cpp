#include "datatypes/datatype.hpp"

#include <algorithm>
#include <utility>

#include "datatypes/datatype_maker.hpp"
#include "datatypes/type_form.hpp"

namespace tranship {
namespace {

std::string list_text(std::span<const std::int64_t> list) {
  constexpr std::size_t shown = 4;
  std::string text = "[";
  for (std::size_t k = 0; k < std::min(list.size(), shown); ++k) {
    text += (k == 0 ? "" : ", ") + std::to_string(list[k]);
  }
  if (list.size() > shown) text += ", ... of " + std::to_string(list.size());
  return text + "]";
}

Status check_lengths(std::size_t lengths, std::size_t displacements) {
  if (lengths == displacements) return {};
  return Error{ErrorCode::invalid_argument,
               "there are " + std::to_string(lengths) + " block lengths and " +
                   std::to_string(displacements) + " displacements",
               "give as many of each"};
}

}  // namespace

namespace {

/// Returns `length` items of a base, one extent apart.
TypeTree block_of(std::int64_t length, const Datatype& base) {
  return TypeTree::loop(length, base.extent(), base.tree());
}

Result<Datatype> strided(std::string text, std::int64_t count, std::int64_t block_length,
                         __int128 stride, const Datatype& base) {
  if (count < 0) return DatatypeMaker::negative("count", count);
  if (block_length < 0) return DatatypeMaker::negative("block_length", block_length);
  DatatypeMaker maker(std::move(text));
  if (count == 0 || block_length == 0) return maker.finish({});
  const __int128 items = static_cast<__int128>(count) * block_length;
  if (!DatatypeMaker::fits(items * std::max<std::int64_t>(base.bytes(), 1)) ||
      (count > 1 && !DatatypeMaker::fits(stride))) {
    return DatatypeMaker::too_large();
  }
  // The first and the last block bound all of them.
  if (Status s = maker.add_bounds(block_length, 0, base); !s) return s.error();
  if (count > 1) {
    const __int128 last = (count - 1) * stride;
    if (!DatatypeMaker::fits(last)) return DatatypeMaker::too_large();
    if (Status s = maker.add_bounds(block_length, last, base); !s) return s.error();
  }
  maker.elements(base.signature().repeated(block_length).repeated(count), base);
  return maker.finish(
      TypeTree::loop(count, static_cast<std::int64_t>(stride), block_of(block_length, base)));
}

Result<Datatype> indexed_in(const char* name, std::span<const std::int64_t> block_lengths,
                            std::span<const std::int64_t> displacements, std::int64_t unit,
                            const Datatype& base) {
  if (Status s = check_lengths(block_lengths.size(), displacements.size()); !s) return s.error();
  DatatypeMaker maker(std::string(name) + "(" + list_text(block_lengths) + ", " +
                      list_text(displacements) + ", " + base.text() + ")");
  std::vector<TypeTree> parts;
  parts.reserve(displacements.size());
  std::int64_t last_length = -1;
  TypeTree block;
  for (std::size_t k = 0; k < displacements.size(); ++k) {
    const __int128 displacement = static_cast<__int128>(displacements[k]) * unit;
    if (Status s = maker.add_block(block_lengths[k], displacement, base); !s) return s.error();
    if (block_lengths[k] != last_length) block = block_of(block_lengths[k], base);
    last_length = block_lengths[k];
    parts.push_back(block.shifted(static_cast<std::int64_t>(displacement)));
  }
  return maker.finish(TypeTree::sequence(parts));
}

Result<Datatype> indexed_block_in(const char* name, std::int64_t block_length,
                                  std::span<const std::int64_t> displacements, std::int64_t unit,
                                  const Datatype& base) {
  if (block_length < 0) return DatatypeMaker::negative("block_length", block_length);
  DatatypeMaker maker(std::string(name) + "(" + std::to_string(block_length) + ", " +
                      list_text(displacements) + ", " + base.text() + ")");
  const auto count = static_cast<std::int64_t>(displacements.size());
  const __int128 bytes = static_cast<__int128>(count) * block_length * base.bytes();
  if (!DatatypeMaker::fits(bytes)) return DatatypeMaker::too_large();
  if (count > 0) {
    // The lowest and the highest block bound all of them.
    const auto [low, high] = std::minmax_element(displacements.begin(), displacements.end());
    for (const std::int64_t displacement : {*low, *high}) {
      const __int128 place = static_cast<__int128>(displacement) * unit;
      if (Status s = maker.add_bounds(block_length, place, base); !s) return s.error();
    }
  }
  std::vector<std::int64_t> places(displacements.begin(), displacements.end());
  for (std::int64_t& place : places) place *= unit;
  maker.elements(base.signature().repeated(block_length).repeated(count), base);
  return maker.finish(TypeTree::list(places, block_of(block_length, base)));
}

}  // namespace

Result<Datatype> Datatype::element(const std::string& type) {
  const auto parsed = Element::parse(type);
  if (!parsed) return parsed.error();
  DatatypeMaker maker(type);
  Datatype one;
  one.signature_ = Signature::of(*parsed);
  one.alignment_ = parsed->alignment;
  one.tree_ = TypeTree::run(parsed->bytes);
  one.upper_ = parsed->bytes;
  if (Status s = maker.add_block(1, 0, one); !s) return s.error();
  return maker.finish(one.tree_);
}

Result<Datatype> Datatype::contiguous(std::int64_t count, const Datatype& base) {
  return strided("contiguous(" + std::to_string(count) + ", " + base.text() + ")", count, 1,
                 base.extent(), base);
}

Result<Datatype> Datatype::raw(std::int64_t bytes) {
  struct RawType {
    std::int64_t bytes = -1;
    std::optional<Datatype> type;
  };
  thread_local std::array<RawType, 8> last;
  thread_local std::size_t next = 0;
  for (const RawType& one : last) {
    if (one.bytes == bytes) return *one.type;
  }
  const auto byte = element("V1");
  auto type = byte ? contiguous(bytes, *byte) : byte;
  if (type) last[next++ % last.size()] = {bytes, *type};
  return type;
}

Result<Datatype> Datatype::vector(std::int64_t count, std::int64_t block_length,
                                  std::int64_t stride, const Datatype& base) {
  return strided("vector(" + std::to_string(count) + ", " + std::to_string(block_length) + ", " +
                     std::to_string(stride) + ", " + base.text() + ")",
                 count, block_length, static_cast<__int128>(stride) * base.extent(), base);
}

Result<Datatype> Datatype::hvector(std::int64_t count, std::int64_t block_length,
                                   std::int64_t stride_bytes, const Datatype& base) {
  return strided("hvector(" + std::to_string(count) + ", " + std::to_string(block_length) + ", " +
                     std::to_string(stride_bytes) + ", " + base.text() + ")",
                 count, block_length, stride_bytes, base);
}

Result<Datatype> Datatype::indexed(std::span<const std::int64_t> block_lengths,
                                   std::span<const std::int64_t> displacements,
                                   const Datatype& base) {
  return indexed_in("indexed", block_lengths, displacements, base.extent(), base);
}

Result<Datatype> Datatype::hindexed(std::span<const std::int64_t> block_lengths,
                                    std::span<const std::int64_t> displacements_bytes,
                                    const Datatype& base) {
  return indexed_in("hindexed", block_lengths, displacements_bytes, 1, base);
}

Result<Datatype> Datatype::indexed_block(std::int64_t block_length,
                                         std::span<const std::int64_t> displacements,
                                         const Datatype& base) {
  return indexed_block_in("indexed_block", block_length, displacements, base.extent(), base);
}

Result<Datatype> Datatype::hindexed_block(std::int64_t block_length,
                                          std::span<const std::int64_t> displacements_bytes,
                                          const Datatype& base) {
  return indexed_block_in("hindexed_block", block_length, displacements_bytes, 1, base);
}

Result<Datatype> Datatype::structure(std::span<const std::int64_t> block_lengths,
                                     std::span<const std::int64_t> displacements_bytes,
                                     std::span<const Datatype> bases) {
  if (Status s = check_lengths(block_lengths.size(), displacements_bytes.size()); !s) {
    return s.error();
  }
  if (bases.size() != block_lengths.size()) {
    return Error{ErrorCode::invalid_argument,
                 "there are " + std::to_string(bases.size()) + " types and " +
                     std::to_string(block_lengths.size()) + " block lengths",
                 "give as many of each"};
  }
  constexpr std::size_t bases_shown = 3;
  std::string text = "struct(";
  for (std::size_t k = 0; k < std::min(bases.size(), bases_shown); ++k) {
    text += (k == 0 ? "" : ", ") + std::to_string(block_lengths[k]) + " x " + bases[k].text() +
            " at " + std::to_string(displacements_bytes[k]);
  }
  if (bases.size() > bases_shown) text += ", ... of " + std::to_string(bases.size());
  DatatypeMaker maker(text + ")");
  std::vector<TypeTree> parts;
  for (std::size_t k = 0; k < bases.size(); ++k) {
    if (Status s = maker.add_block(block_lengths[k], displacements_bytes[k], bases[k]); !s) {
      return s.error();
    }
    parts.push_back(block_of(block_lengths[k], bases[k]).shifted(displacements_bytes[k]));
  }
  maker.align();
  return maker.finish(TypeTree::sequence(parts));
}

Result<Datatype> Datatype::resized(std::int64_t lower_bound, std::int64_t extent,
                                   const Datatype& base) {
  const __int128 upper = static_cast<__int128>(lower_bound) + extent;
  if (!DatatypeMaker::fits(lower_bound) || !DatatypeMaker::fits(upper) ||
      !DatatypeMaker::fits(extent))
    return DatatypeMaker::too_large();
  DatatypeMaker maker("resized(" + std::to_string(lower_bound) + ", " + std::to_string(extent) +
                      ", " + base.text() + ")");
  if (Status s = maker.add_block(1, 0, base); !s) return s.error();
  maker.set_bounds(lower_bound, static_cast<std::int64_t>(upper));
  return maker.finish(base.tree());
}

std::int64_t Datatype::true_lower_bound() const {
  return tree_.node ? tree_.offset + tree_.node->lower : 0;
}

std::int64_t Datatype::true_upper_bound() const {
  return tree_.node ? tree_.offset + tree_.node->upper : 0;
}

const TypeForm& Datatype::form() const {
  std::call_once(kept_->form_once, [this] { kept_->form = TypeForm::of(tree_); });
  return *kept_->form;
}

bool Datatype::disjoint() const {
  std::call_once(kept_->disjoint_once, [this] { kept_->disjoint = is_disjoint(form()); });
  return kept_->disjoint;
}

Status check_elements(const Datatype& source, const Datatype& target) {
  if (source.bytes() != target.bytes()) {
    return Error{ErrorCode::invalid_argument,
                 "the source's type " + source.text() + " has " + std::to_string(source.bytes()) +
                     " bytes and the target's type " + target.text() + " " +
                     std::to_string(target.bytes()),
                 "give types with the same elements"};
  }
  const bool agree = source.signature() == target.signature() || source.signature().raw() ||
                     target.signature().raw();
  if (agree) return {};
  return Error{ErrorCode::invalid_argument,
               "the elements of the source's type " + source.text() +
                   " are not those of the target's type " + target.text(),
               "give types with the same sequence of elements, or raw bytes (V1) on one side"};
}

}  // namespace tranship
