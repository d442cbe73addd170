// The variables that a client remembers.
#include "staging/client/known_variables.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

KnownVariable variable(std::uint64_t incarnation, bool declared) {
  KnownVariable known;
  known.metadata.type = "f8";
  known.metadata.element_bytes = 8;
  known.metadata.first = *Box::make({0}, {4});
  known.metadata.domain = *Box::make({0}, {64});
  known.metadata.cells = Cells::around(known.metadata.first, 8, 1, known.metadata.domain);
  known.metadata.incarnation = {incarnation, incarnation};
  known.declared = declared;
  return known;
}

PutRequest put_of(std::int64_t lower, std::int64_t upper, const char* type = "f8") {
  return {"energy", 1, *Box::make({lower}, {upper}), type, 8};
}

}  // namespace

TEST(a_declared_variable_is_found_for_puts_that_fit_it) {
  KnownVariables known;
  EXPECT(!known.find("energy"));
  EXPECT(!known.find_declared(put_of(0, 4)));
  known.remember("energy", variable(1, true));
  EXPECT(known.find_declared(put_of(0, 4)).has_value());
  EXPECT(!known.find_declared(put_of(60, 68)));      // the domain may have grown
  EXPECT(!known.find_declared(put_of(0, 4, "i8")));  // the variable may have been replaced
  known.forget("energy");
  EXPECT(!known.find("energy"));
}

TEST(a_declaration_lasts_as_long_as_its_incarnation) {
  KnownVariables known;
  known.remember("energy", variable(1, true));
  EXPECT(known.remember("energy", variable(1, false)).declared);
  EXPECT(!known.remember("energy", variable(2, false)).declared);
  EXPECT(!known.find_declared(put_of(0, 4)));
}

TEST(the_order_of_cells_is_computed_once_for_each_incarnation) {
  KnownVariables known;
  const auto first = known.remember("energy", variable(1, false)).metadata.cells.order;
  REQUIRE(first != nullptr);
  EXPECT(known.remember("energy", variable(1, false)).metadata.cells.order == first);
  EXPECT(known.remember("energy", variable(2, false)).metadata.cells.order != first);
}

TEST(a_client_remembers_a_bounded_number_of_variables) {
  KnownVariables known;
  constexpr int count = 1030;
  int found = 0;
  for (int k = 0; k < count; ++k) known.remember("v" + std::to_string(k), variable(1, false));
  for (int k = 0; k < count; ++k) found += known.find("v" + std::to_string(k)) ? 1 : 0;
  EXPECT_EQ(found, 1024);
}
