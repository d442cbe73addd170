#include "data/describe.hpp"

#include <nlohmann/json.hpp>

namespace tranship {
namespace {

using Json = nlohmann::ordered_json;

Json extents_of(const IndexSpace& space) {
  Json extents = Json::array();
  for (const Dimension& dimension : space) extents.push_back({dimension.name, dimension.extent});
  return extents;
}

Json fields_of(const Mapping& mapping, std::int64_t origin) {
  Json fields = Json::array();
  for (const Placement& placement : mapping.fields()) {
    Json strides = Json::array();
    for (std::size_t k = 0; k < static_cast<std::size_t>(mapping.rank()); ++k) {
      strides.push_back(placement.dimension[k].level[0].stride);
    }
    fields.push_back({{"name", placement.field.name},
                      {"type", placement.field.type},
                      {"bytes", placement.field.bytes},
                      {"offset", placement.offset - origin},
                      {"strides", strides}});
  }
  return fields;
}

Result<std::shared_ptr<const Mapping>> mapping_from(const Json& json) {
  IndexSpace space;
  for (const Json& extent : json.at("extents")) space.push_back({extent.at(0), extent.at(1)});
  if (!json.at("strided").get<bool>()) {
    FieldSpace fields;
    for (const Json& field : json.at("fields")) {
      fields.push_back({field.at("name"), field.at("type"), field.at("bytes")});
    }
    auto layout = Layout::parse(json.at("layout").get<std::string>());
    if (!layout) return layout.error();
    return Mapping::make(std::move(space), std::move(fields), *layout);
  }
  std::vector<Mapping::StridedField> fields;
  for (const Json& field : json.at("fields")) {
    fields.push_back({{field.at("name"), field.at("type"), field.at("bytes")},
                      field.at("offset"),
                      field.at("strides").get<std::vector<std::int64_t>>()});
  }
  return Mapping::make_strided(std::move(space), std::move(fields));
}

}  // namespace

std::string describe(const View& view, bool named, std::int64_t origin) {
  const auto rank = static_cast<std::size_t>(view.mapping->rank());
  Json json{
      {"extents", extents_of(view.mapping->space())},
      {"fields", fields_of(*view.mapping, origin)},
      {"layout", view.mapping->layout().to_string()},
      {"strided", view.mapping->strided()},
      {"named", named},
      {"lower", std::vector<std::int64_t>(view.lower.begin(),
                                          view.lower.begin() + static_cast<std::ptrdiff_t>(rank))},
      {"box", std::vector<std::int64_t>(view.extents.begin(),
                                        view.extents.begin() + static_cast<std::ptrdiff_t>(rank))}};
  return json.dump();
}

Result<Described> described(const std::string& text, std::int64_t bytes) {
  try {
    const Json json = Json::parse(text);
    auto mapping = mapping_from(json);
    if (!mapping) return mapping.error();
    Described result{View::whole(*mapping), json.at("named")};
    for (std::size_t k = 0; k < static_cast<std::size_t>((*mapping)->rank()); ++k) {
      result.view.lower[k] = json.at("lower").at(k);
      result.view.extents[k] = json.at("box").at(k);
      const std::int64_t end = result.view.lower[k] + result.view.extents[k];
      if (result.view.lower[k] < 0 || end > (*mapping)->space()[k].extent) {
        return Error{ErrorCode::invalid_argument, "a peer described a box outside its array"};
      }
    }
    if ((*mapping)->begin_bytes() < 0 || (*mapping)->end_bytes() > bytes) {
      return Error{ErrorCode::invalid_argument,
                   "a peer described an array that is larger than what it exports"};
    }
    return result;
  } catch (const std::exception& error) {
    return Error{ErrorCode::invalid_argument,
                 std::string("a peer's description of its array cannot be read: ") + error.what()};
  }
}

}  // namespace tranship
