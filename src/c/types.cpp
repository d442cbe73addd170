// Types, and copies between them, as C sees them.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "c/copies.hpp"
#include "datatypes/datatype.hpp"
#include "datatypes/type_form.hpp"

using namespace tranship;
using namespace tranship::c_api;

namespace {

using Names = std::initializer_list<std::pair<const char*, const void*>>;

/// Writes the handle of the type that `make` returns. `others`: arguments that are not null either.
template <typename Make>
tranship_code made_by(tranship_type** type, Names others, const Make& make) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"type", type}}); !given) return given;
    *type = nullptr;
    if (Status given = check_given(others); !given) return given;
    Result<Datatype> made = make();
    if (!made) return made.error();
    *type = std::make_unique<tranship_type>(std::move(*made)).release();
    return {};
  });
}

std::span<const std::int64_t> list_of(const std::int64_t* values, std::int64_t count) {
  return {values, static_cast<std::size_t>(count)};
}

Result<ArrayOrder> order_of(int order) {
  if (order == TRANSHIP_C_ORDER) return ArrayOrder::c;
  if (order == TRANSHIP_FORTRAN_ORDER) return ArrayOrder::fortran;
  return Error{ErrorCode::invalid_argument, "the array's order is " + std::to_string(order),
               "use TRANSHIP_C_ORDER or TRANSHIP_FORTRAN_ORDER"};
}

Result<std::vector<Datatype>> bases_of(const tranship_type* const* bases, std::int64_t count) {
  std::vector<Datatype> made;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::string name = "bases[" + std::to_string(k) + "]";
    if (Status set = check_given({{name.c_str(), bases[k]}}); !set) return set.error();
    made.push_back(bases[k]->type);
  }
  return made;
}

Result<std::vector<Distribution>> distributions_of(const tranship_distribution* given, int count) {
  constexpr std::array kinds{Distribution::Kind::none, Distribution::Kind::block,
                             Distribution::Kind::cyclic};
  static_assert(TRANSHIP_UNDISTRIBUTED == 0 && TRANSHIP_BLOCK == 1 && TRANSHIP_CYCLIC == 2);
  std::vector<Distribution> made;
  for (int k = 0; k < count; ++k) {
    const int kind = given[k].kind;
    if (kind < 0 || kind >= static_cast<int>(kinds.size())) {
      return Error{
          ErrorCode::invalid_argument,
          "distributions[" + std::to_string(k) + "] is of the kind " + std::to_string(kind),
          "use TRANSHIP_UNDISTRIBUTED, TRANSHIP_BLOCK or TRANSHIP_CYCLIC"};
    }
    made.push_back({kinds[static_cast<std::size_t>(kind)], given[k].block_length});
  }
  return made;
}

/// Returns the type, or as many raw bytes as the other end's type has.
Result<Datatype> type_of(const tranship_type* given, const tranship_type& other) {
  if (given != nullptr) return given->type;
  return Datatype::raw(other.type.bytes());
}

Status read_pairs(const tranship_typed_pair* pairs, std::int64_t count, ReadRequest& request) {
  if (Status s = check_list({"pair_count", count}, {{"pairs", pairs}}); !s) return s;
  for (std::int64_t k = 0; k < count; ++k) {
    const tranship_typed_pair& pair = pairs[k];
    if (Status s = check_ends(pair.source, pair.target); !s) return s;
    const tranship_type* some = pair.source_type != nullptr ? pair.source_type : pair.target_type;
    if (some == nullptr) {
      return Error{ErrorCode::invalid_argument,
                   "pairs[" + std::to_string(k) + "] has neither a source_type nor a target_type",
                   "give a type for one of them"};
    }
    auto source = type_of(pair.source_type, *some);
    if (!source) return source.error();
    auto target = type_of(pair.target_type, *some);
    if (!target) return target.error();
    request.pairs.push_back({pair.source->array, pair.target->array});
    request.types.push_back({std::move(*source), std::move(*target)});
  }
  return {};
}

}  // namespace

tranship_code tranship_type_element(const char* name, tranship_type** type) {
  return made_by(type, {{"name", name}}, [&] { return Datatype::element(name); });
}

tranship_code tranship_type_contiguous(int64_t count, const tranship_type* base,
                                       tranship_type** type) {
  return made_by(type, {{"base", base}}, [&] { return Datatype::contiguous(count, base->type); });
}

tranship_code tranship_type_vector(int64_t count, int64_t block_length, int64_t stride,
                                   const tranship_type* base, tranship_type** type) {
  return made_by(type, {{"base", base}},
                 [&] { return Datatype::vector(count, block_length, stride, base->type); });
}

tranship_code tranship_type_hvector(int64_t count, int64_t block_length, int64_t stride_bytes,
                                    const tranship_type* base, tranship_type** type) {
  return made_by(type, {{"base", base}},
                 [&] { return Datatype::hvector(count, block_length, stride_bytes, base->type); });
}

tranship_code tranship_type_indexed(int64_t count, const int64_t* block_lengths,
                                    const int64_t* displacements, const tranship_type* base,
                                    tranship_type** type) {
  return made_by(type, {{"base", base}}, [&]() -> Result<Datatype> {
    Status lists = check_list({"count", count},
                              {{"block_lengths", block_lengths}, {"displacements", displacements}});
    if (!lists) return lists.error();
    return Datatype::indexed(list_of(block_lengths, count), list_of(displacements, count),
                             base->type);
  });
}

tranship_code tranship_type_hindexed(int64_t count, const int64_t* block_lengths,
                                     const int64_t* displacements_bytes, const tranship_type* base,
                                     tranship_type** type) {
  return made_by(type, {{"base", base}}, [&]() -> Result<Datatype> {
    Status lists = check_list({"count", count}, {{"block_lengths", block_lengths},
                                                 {"displacements_bytes", displacements_bytes}});
    if (!lists) return lists.error();
    return Datatype::hindexed(list_of(block_lengths, count), list_of(displacements_bytes, count),
                              base->type);
  });
}

tranship_code tranship_type_indexed_block(int64_t count, int64_t block_length,
                                          const int64_t* displacements, const tranship_type* base,
                                          tranship_type** type) {
  return made_by(type, {{"base", base}}, [&]() -> Result<Datatype> {
    Status lists = check_list({"count", count}, {{"displacements", displacements}});
    if (!lists) return lists.error();
    return Datatype::indexed_block(block_length, list_of(displacements, count), base->type);
  });
}

tranship_code tranship_type_hindexed_block(int64_t count, int64_t block_length,
                                           const int64_t* displacements_bytes,
                                           const tranship_type* base, tranship_type** type) {
  return made_by(type, {{"base", base}}, [&]() -> Result<Datatype> {
    Status lists = check_list({"count", count}, {{"displacements_bytes", displacements_bytes}});
    if (!lists) return lists.error();
    return Datatype::hindexed_block(block_length, list_of(displacements_bytes, count), base->type);
  });
}

tranship_code tranship_type_struct(int64_t count, const int64_t* block_lengths,
                                   const int64_t* displacements_bytes,
                                   const tranship_type* const* bases, tranship_type** type) {
  return made_by(type, {}, [&]() -> Result<Datatype> {
    Status lists = check_list({"count", count}, {{"block_lengths", block_lengths},
                                                 {"displacements_bytes", displacements_bytes},
                                                 {"bases", bases}});
    if (!lists) return lists.error();
    const auto made = bases_of(bases, count);
    if (!made) return made.error();
    return Datatype::structure(list_of(block_lengths, count), list_of(displacements_bytes, count),
                               *made);
  });
}

tranship_code tranship_type_subarray(int dimension_count, const int64_t* sizes,
                                     const int64_t* subsizes, const int64_t* starts, int order,
                                     const tranship_type* base, tranship_type** type) {
  return made_by(type, {{"base", base}}, [&]() -> Result<Datatype> {
    Status lists = check_list({"dimension_count", dimension_count},
                              {{"sizes", sizes}, {"subsizes", subsizes}, {"starts", starts}});
    if (!lists) return lists.error();
    const auto fastest = order_of(order);
    if (!fastest) return fastest.error();
    return Datatype::subarray(list_of(sizes, dimension_count), list_of(subsizes, dimension_count),
                              list_of(starts, dimension_count), *fastest, base->type);
  });
}

tranship_code tranship_type_darray(int64_t rank, int dimension_count, const int64_t* sizes,
                                   const tranship_distribution* distributions, const int64_t* grid,
                                   int order, const tranship_type* base, tranship_type** type) {
  return made_by(type, {{"base", base}}, [&]() -> Result<Datatype> {
    Status lists = check_list({"dimension_count", dimension_count},
                              {{"sizes", sizes}, {"distributions", distributions}, {"grid", grid}});
    if (!lists) return lists.error();
    const auto fastest = order_of(order);
    if (!fastest) return fastest.error();
    const auto dealt = distributions_of(distributions, dimension_count);
    if (!dealt) return dealt.error();
    return Datatype::darray(rank, list_of(sizes, dimension_count), *dealt,
                            list_of(grid, dimension_count), *fastest, base->type);
  });
}

tranship_code tranship_type_resized(const tranship_type* base, int64_t lower_bound, int64_t extent,
                                    tranship_type** type) {
  return made_by(type, {{"base", base}},
                 [&] { return Datatype::resized(lower_bound, extent, base->type); });
}

void tranship_type_free(tranship_type* type) { const std::unique_ptr<tranship_type> freed(type); }

int64_t tranship_type_bytes(const tranship_type* type) {
  return type != nullptr ? type->type.bytes() : 0;
}

int64_t tranship_type_extent(const tranship_type* type) {
  return type != nullptr ? type->type.extent() : 0;
}

int64_t tranship_type_lower_bound(const tranship_type* type) {
  return type != nullptr ? type->type.lower_bound() : 0;
}

int64_t tranship_type_true_lower_bound(const tranship_type* type) {
  return type != nullptr ? type->type.true_lower_bound() : 0;
}

int64_t tranship_type_true_upper_bound(const tranship_type* type) {
  return type != nullptr ? type->type.true_upper_bound() : 0;
}

int64_t tranship_type_runs(const tranship_type* type) {
  int64_t runs = 0;
  (void)caught([&]() -> Status {
    if (type != nullptr) runs = type->type.form().runs();
    return {};
  });
  return runs;
}

int tranship_type_disjoint(const tranship_type* type) {
  bool disjoint = false;
  (void)caught([&]() -> Status {
    disjoint = type != nullptr && type->type.disjoint();
    return {};
  });
  return disjoint ? 1 : 0;
}

const char* tranship_type_text(const tranship_type* type) {
  return type != nullptr ? type->type.text().c_str() : "";
}

tranship_code tranship_copy_types(tranship_engine* engine, const tranship_typed_pair* pairs,
                                  int64_t pair_count, const tranship_copy_options* options,
                                  tranship_event** event) {
  return started_by(engine, options, event,
                    [&](ReadRequest& request) { return read_pairs(pairs, pair_count, request); });
}

tranship_code tranship_prepare_types(tranship_engine* engine, const tranship_typed_pair* pairs,
                                     int64_t pair_count, const tranship_copy_options* options,
                                     tranship_prepared** prepared) {
  return prepared_by(engine, options, prepared,
                     [&](ReadRequest& request) { return read_pairs(pairs, pair_count, request); });
}
