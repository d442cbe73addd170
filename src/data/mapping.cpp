#include "data/mapping.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/hash.hpp"
#include "data/slice.hpp"
#include "data/type_numbers.hpp"

namespace tranship {
namespace {

constexpr std::int64_t bytes_max = std::numeric_limits<std::int64_t>::max() / 4;

Error bad_array(std::string message, std::string hint = {}) {
  return Error{ErrorCode::invalid_argument, std::move(message), std::move(hint)};
}

Status check_space(const IndexSpace& space) {
  if (space.size() > dimensions_max) {
    return bad_array("an array has " + std::to_string(space.size()) + " dimensions",
                     "give it at most " + std::to_string(dimensions_max));
  }
  for (std::size_t k = 0; k < space.size(); ++k) {
    const Dimension& dimension = space[k];
    if (dimension.name.empty() || dimension.name == "F") {
      return bad_array("\"" + dimension.name + "\" cannot name a dimension",
                       "give it another name: F is the field space");
    }
    if (dimension.extent < 0) {
      return bad_array("dimension \"" + dimension.name + "\" has a negative extent");
    }
    for (std::size_t j = 0; j < k; ++j) {
      if (space[j].name == dimension.name) {
        return bad_array("dimension \"" + dimension.name + "\" is named twice");
      }
    }
  }
  return {};
}

template <typename Fields, typename Get>
Status check_fields(const Fields& fields, Get field_of) {
  if (fields.empty()) return bad_array("an array needs at least one field");
  for (std::size_t k = 0; k < fields.size(); ++k) {
    const Field& field = field_of(fields[k]);
    if (field.bytes < 1) return bad_array("field \"" + field.name + "\" has no size");
    for (std::size_t j = 0; j < k; ++j) {
      if (field_of(fields[j]).name == field.name) {
        return bad_array("field \"" + field.name + "\" is named twice");
      }
    }
  }
  return {};
}

/// The number of values of a term, and the number of its level within its dimension.
struct TermShape {
  std::int64_t extent = 1;
  std::size_t dimension = 0;
  int level = 0;
  bool is_fields = false;
};

std::vector<TermShape> shape_terms(const IndexSpace& space, const Layout& layout) {
  std::vector<TermShape> shapes;
  shapes.reserve(layout.terms().size());
  std::array<std::int64_t, dimensions_max> blocked{};
  std::array<int, dimensions_max> levels{};
  blocked.fill(1);
  const auto index_of = [&](const std::string& name) {
    const auto found = std::find_if(space.begin(), space.end(),
                                    [&](const Dimension& d) { return d.name == name; });
    return static_cast<std::size_t>(found - space.begin());
  };
  for (const Term& term : layout.terms()) {
    TermShape shape;
    shape.is_fields = term.dimension.empty();
    if (!shape.is_fields) {
      shape.dimension = index_of(term.dimension);
      if (term.block > 0) {
        shape.extent = term.block;
        shape.level = levels[shape.dimension]++;
        if (blocked[shape.dimension] < bytes_max / term.block) {
          blocked[shape.dimension] *= term.block;
        }
      }
    }
    shapes.push_back(shape);
  }
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const Term& term = layout.terms()[k];
    if (shapes[k].is_fields || term.block > 0) continue;
    const std::size_t dimension = shapes[k].dimension;
    shapes[k].level = levels[dimension];
    shapes[k].extent = (space[dimension].extent + blocked[dimension] - 1) / blocked[dimension];
  }
  return shapes;
}

/// Returns whether the array with the padding of its blocks is too large for 63-bit offsets.
bool too_large(const std::vector<TermShape>& shapes) {
  std::int64_t points = 1;
  for (const TermShape& shape : shapes) {
    if (shape.extent > 0 && points > bytes_max / 4096 / shape.extent) return true;
    points *= shape.extent;
  }
  return false;
}

/// Returns the layout that follows the first field's strides.
Layout layout_of_strides(const IndexSpace& space, const std::vector<Placement>& fields) {
  std::vector<std::size_t> order(space.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto stride = [&](std::size_t k) {
    return std::abs(fields[0].dimension[k].level[0].stride);
  };
  // Equal strides (extents of 1): the later dimension is the faster, as in C order.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return stride(a) != stride(b) ? stride(a) < stride(b) : a > b;
  });
  std::int64_t field_step = fields.size() > 1 ? std::abs(fields[1].offset - fields[0].offset) : 0;
  std::vector<Term> terms;
  bool placed = false;
  for (const std::size_t k : order) {
    if (!placed && (field_step <= stride(k) || space[k].extent <= 1)) {
      terms.push_back(Term{});
      placed = true;
    }
    terms.push_back(Term{space[k].name, 0});
  }
  if (!placed) terms.push_back(Term{});
  return Layout(std::move(terms));
}

}  // namespace

std::shared_ptr<Mapping> new_mapping() { return std::shared_ptr<Mapping>(new Mapping()); }

Result<std::shared_ptr<const Mapping>> Mapping::make(IndexSpace space, FieldSpace fields,
                                                     const Layout& layout) {
  if (auto status = check_space(space); !status) return status.error();
  if (auto status = check_fields(fields, [](const Field& f) -> const Field& { return f; });
      !status) {
    return status.error();
  }
  if (auto status = layout.check(space); !status) return status.error();
  if (too_large(shape_terms(space, layout))) {
    return bad_array("the array is larger than 2^51 points");
  }
  auto mapping = new_mapping();
  for (Field& field : fields) mapping->fields_.push_back({std::move(field), 0, {}});
  mapping->space_ = std::move(space);
  mapping->layout_ = layout;
  const std::int64_t end_bytes = mapping->place();
  mapping->finish();
  mapping->begin_bytes_ = 0;
  mapping->end_bytes_ = end_bytes;  // padding at the edges belongs to the array
  return std::shared_ptr<const Mapping>(mapping);
}

std::int64_t Mapping::place() {
  std::int64_t points = 1;        // values of the terms up to this one, fields excluded
  std::int64_t record_bytes = 0;  // 0 until F has passed, then the bytes of all fields
  for (const TermShape& shape : shape_terms(space_, layout_)) {
    if (shape.is_fields) {
      for (Placement& placement : fields_) {
        placement.offset = points * record_bytes;
        record_bytes += placement.field.bytes;
      }
      continue;
    }
    for (Placement& placement : fields_) {
      Levels& levels = placement.dimension[shape.dimension];
      const std::int64_t unit = record_bytes > 0 ? record_bytes : placement.field.bytes;
      levels.count = std::max(levels.count, shape.level + 1);
      levels.level[static_cast<std::size_t>(shape.level)] = {shape.extent, points * unit};
    }
    points *= shape.extent;
  }
  return points * record_bytes;
}

std::shared_ptr<const Mapping> Mapping::slot(const Point& extents) const {
  auto mapping = new_mapping();
  mapping->space_ = space_;
  for (std::size_t k = 0; k < space_.size(); ++k) mapping->space_[k].extent = extents[k];
  mapping->fields_.resize(fields_.size());
  for (std::size_t f = 0; f < fields_.size(); ++f) mapping->fields_[f].field = fields_[f].field;
  std::vector<Term> terms = layout_.terms();
  for (Term& term : terms) {
    // No larger than the box: a block would be padded to its full size.
    for (const Dimension& dimension : mapping->space_) {
      if (term.dimension == dimension.name) term.block = std::min(term.block, dimension.extent);
    }
  }
  mapping->layout_ = Layout(std::move(terms));
  mapping->point_bytes_ = point_bytes_;
  mapping->end_bytes_ = mapping->place();
  return mapping;
}

Result<std::shared_ptr<const Mapping>> Mapping::make_strided(IndexSpace space,
                                                             std::vector<StridedField> fields) {
  if (auto status = check_space(space); !status) return status.error();
  if (auto status =
          check_fields(fields, [](const StridedField& f) -> const Field& { return f.field; });
      !status) {
    return status.error();
  }
  auto mapping = new_mapping();
  for (StridedField& field : fields) {
    if (field.strides.size() != space.size()) {
      return bad_array("field \"" + field.field.name + "\" has " +
                       std::to_string(field.strides.size()) + " strides for " +
                       std::to_string(space.size()) + " dimensions");
    }
    Placement placement{std::move(field.field), field.offset, {}};
    for (std::size_t k = 0; k < space.size(); ++k) {
      placement.dimension[k].level[0] = {std::max<std::int64_t>(space[k].extent, 1),
                                         field.strides[k]};
    }
    mapping->fields_.push_back(std::move(placement));
  }
  mapping->space_ = std::move(space);
  mapping->layout_ = layout_of_strides(mapping->space_, mapping->fields_);
  mapping->strided_ = true;
  mapping->finish();
  return std::shared_ptr<const Mapping>(mapping);
}

std::shared_ptr<const Mapping> Mapping::permuted(const std::vector<int>& order) const {
  auto mapping = new_mapping();
  *mapping = *this;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto from = static_cast<std::size_t>(order[k]);
    mapping->space_[k] = space_[from];
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      mapping->fields_[f].dimension[k] = fields_[f].dimension[from];
    }
  }
  mapping->finish();
  mapping->begin_bytes_ = begin_bytes_;
  mapping->end_bytes_ = end_bytes_;
  return mapping;
}

std::shared_ptr<const Mapping> Mapping::sliced(const Point& lower,
                                               const std::vector<DimensionSlice>& slices) const {
  auto mapping = new_mapping();
  std::vector<Placement> fields;
  for (const Placement& placement : fields_) {
    Placement part{placement.field, placement.offset, {}};
    std::size_t kept = 0;
    for (std::size_t k = 0; k < slices.size(); ++k) {
      part.offset += placement.dimension[k].offset(lower[k] + slices[k].start);
      if (slices[k].drop) continue;
      part.dimension[kept++].level[0] = {std::max<std::int64_t>(slices[k].count, 1),
                                         placement.dimension[k].level[0].stride * slices[k].step};
    }
    fields.push_back(std::move(part));
  }
  for (std::size_t k = 0; k < slices.size(); ++k) {
    if (!slices[k].drop) mapping->space_.push_back({space_[k].name, slices[k].count});
  }
  mapping->fields_ = std::move(fields);
  mapping->layout_ = layout_of_strides(mapping->space_, mapping->fields_);
  mapping->strided_ = true;
  mapping->finish();
  return mapping;
}

void Mapping::finish() {
  point_bytes_ = 0;
  std::string key;
  const auto put = [&](std::int64_t number) { key += std::to_string(number) + ' '; };
  for (const Dimension& dimension : space_) {
    key += dimension.name + '=';
    put(dimension.extent);
  }
  const bool empty =
      std::any_of(space_.begin(), space_.end(), [](const Dimension& d) { return d.extent == 0; });
  begin_bytes_ = empty ? 0 : std::numeric_limits<std::int64_t>::max();
  end_bytes_ = empty ? 0 : std::numeric_limits<std::int64_t>::min();
  for (const Placement& placement : fields_) {
    point_bytes_ += placement.field.bytes;
    key += placement.field.name + ':' + placement.field.type + '@';
    put(placement.offset);
    std::int64_t low = placement.offset;
    std::int64_t high = placement.offset + placement.field.bytes;
    for (std::size_t k = 0; k < space_.size(); ++k) {
      const Levels& levels = placement.dimension[k];
      for (std::size_t j = 0; j < static_cast<std::size_t>(levels.count); ++j) {
        put(levels.level[j].radix);
        put(levels.level[j].stride);
      }
      const std::int64_t last = levels.offset(space_[k].extent - 1);
      low += std::min<std::int64_t>(last, 0);
      high += std::max<std::int64_t>(last, 0);
    }
    if (empty) continue;
    begin_bytes_ = std::min(begin_bytes_, low);
    end_bytes_ = std::max(end_bytes_, high);
  }
  const bool plain =
      fields_.size() == 1 && std::all_of(fields_[0].dimension.begin(), fields_[0].dimension.end(),
                                         [](const Levels& levels) { return levels.count == 1; });
  type_number_ = plain ? type_number_of(fields_[0].field.type, fields_[0].field.bytes) : 0;
  hash_ = hash_of(key);
  key_ = std::move(key);
}

View View::whole(std::shared_ptr<const Mapping> mapping) {
  View view;
  for (std::size_t k = 0; k < mapping->space().size(); ++k) {
    view.extents[k] = mapping->space()[k].extent;
  }
  view.mapping = std::move(mapping);
  return view;
}

std::int64_t View::points() const {
  std::int64_t product = 1;
  for (std::size_t k = 0; k < mapping->space().size(); ++k) product *= extents[k];
  return product;
}

}  // namespace tranship
