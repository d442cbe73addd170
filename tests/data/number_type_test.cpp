// Names of number types, and NumPy's casting rules.
#include "data/number_type.hpp"

#include "support/test.hpp"

using namespace tranship;

TEST(number_types_are_named_as_numpy_names_them) {
  EXPECT(number_type_from("f4") == (NumberType{NumberKind::float32, false}));
  EXPECT(number_type_from("<f4") == (NumberType{NumberKind::float32, false}));
  EXPECT(number_type_from(">c16") == (NumberType{NumberKind::complex128, true}));
  EXPECT(number_type_from("bfloat16") == (NumberType{NumberKind::bfloat16, false}));
  EXPECT(number_type_from(">i1") == (NumberType{NumberKind::int8, false}));
  for (const char* text : {"", ">", "f16", "c32", "S4", "M8[s]", "('f4', (3,))", "f3", "int4"}) {
    EXPECT(!number_type_from(text));
  }
}

TEST(casting_rules_allow_what_their_names_say) {
  using Kind = NumberKind;
  EXPECT(can_cast(Kind::float32, Kind::float64, Casting::safe));
  EXPECT(!can_cast(Kind::float64, Kind::float32, Casting::safe));
  EXPECT(can_cast(Kind::float64, Kind::float32, Casting::same_kind));
  EXPECT(!can_cast(Kind::float64, Kind::int64, Casting::same_kind));
  EXPECT(can_cast(Kind::complex64, Kind::float32, Casting::unsafe));
  EXPECT(!can_cast(Kind::complex64, Kind::float32, Casting::same_kind));
  EXPECT(!can_cast(Kind::float32, Kind::float32, Casting::none));
  EXPECT(!can_cast(Kind::float8_e5m2, Kind::float8_e8m0fnu, Casting::unsafe));
  for (int from = 0; from < number_kinds; ++from) {
    for (int to = 0; to < number_kinds; ++to) {
      const auto allowed = [&](Casting casting) {
        return can_cast(static_cast<Kind>(from), static_cast<Kind>(to), casting);
      };
      EXPECT(!allowed(Casting::safe) || allowed(Casting::same_kind));
      EXPECT(!allowed(Casting::same_kind) || allowed(Casting::unsafe));
    }
  }
}

TEST(casting_rules_are_read_by_name) {
  for (const Casting casting : {Casting::safe, Casting::same_kind, Casting::unsafe}) {
    EXPECT(casting_from(to_string(casting)).value() == casting);
  }
  const auto unknown = casting_from("no");
  REQUIRE(!unknown.ok());
  EXPECT(unknown.error().text().find("is no casting rule") != std::string::npos);
}
