// What a step has of a variable, and the keys of attributes.
#include "staging/model/steps.hpp"

#include "staging/model/boxes.hpp"
#include "staging/model/limits.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::box_of;

TEST(what_writers_have_of_a_variable_is_merged) {
  StepVariable all{"v", "f8", 8, {}, 0};
  REQUIRE(merge(all, {"v", "f8", 8, box_of({4}, {8}), 1}).ok());
  EXPECT(all.bounds == box_of({4}, {8}) && all.boxes == 1);
  REQUIRE(merge(all, {"v", "f8", 8, box_of({-2}, {1}), 3}).ok());
  EXPECT(all.bounds == box_of({-2}, {8}) && all.boxes == 4);
  REQUIRE(merge(all, {"v", "f8", 8, {}, 0}).ok());
  EXPECT(all.bounds == box_of({-2}, {8}) && all.boxes == 4);
}

TEST(what_does_not_fit_a_variable_of_a_step_changes_nothing) {
  StepVariable all{"v", "f8", 8, box_of({4}, {8}), 1};
  for (const StepVariable& other :
       {StepVariable{"v", "f4", 8, box_of({0}, {1}), 1}, StepVariable{"v", "f8", 4, {}, 0},
        StepVariable{"v", "f8", 8, box_of({0, 0}, {1, 1}), 1}}) {
    const Status refused = merge(all, other);
    REQUIRE(!refused.ok());
    EXPECT(refused.error().code == ErrorCode::invalid_argument);
    EXPECT(refused.error().text().find("\"v\"") != std::string::npos);
  }
  EXPECT(all.bounds == box_of({4}, {8}) && all.boxes == 1);
}

TEST(keys_of_attributes_are_plain_text) {
  EXPECT(check_key("dt").ok() && check_key(std::string(name_bytes_most, 'k')).ok());
  for (const std::string& key :
       {std::string(), std::string(name_bytes_most + 1, 'k'), std::string("a\nb")}) {
    const Status refused = check_key(key);
    EXPECT(!refused.ok() && refused.error().code == ErrorCode::invalid_argument);
  }
}

TEST(a_step_is_named_by_its_number) { EXPECT(step_of(-3) == "step -3"); }
