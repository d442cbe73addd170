// Layouts as text: a layout is read as it was written, and an error names what is wrong with a
// text.
#include "data/layout.hpp"

#include <string>

#include "data/arrays.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST(reading_what_was_written_gives_the_same_layout) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const IndexSpace space = test::random_space(random);
    const Layout layout = test::random_layout(random, space);
    const auto read = Layout::parse(layout.to_string());
    REQUIRE(read.ok());
    EXPECT(*read == layout);
    EXPECT(read->check(space).ok());
  }
}

TEST(spaces_do_not_count_and_a_missing_f_comes_first) {
  EXPECT_EQ(Layout::parse("x:4,F, x ,y").value().to_string(), std::string("x:4, F, x, y"));
  EXPECT_EQ(Layout::parse("x, y").value().to_string(), std::string("F, x, y"));
}

TEST(what_is_no_layout_is_refused_with_the_reason) {
  const struct {
    const char* text;
    const char* reason;
  } cases[] = {
      {"", "is not a term"},           {"x,,y", "is not a term"},
      {"4x", "is not a term"},         {"F:4, x", "cannot be blocked"},
      {"x:0, x", "positive whole"},    {"x:-1, x", "positive whole"},
      {"x:two, x", "positive whole"},  {"x:99999999999999999999, x", "positive whole"},
      {"F, F, x", "F more than once"},
  };
  for (const auto& one : cases) {
    const auto read = Layout::parse(one.text);
    REQUIRE(!read.ok());
    EXPECT(contains(read.error().text(), one.reason));
  }
}

TEST(a_layout_names_each_dimension_once_without_a_block) {
  const IndexSpace space{{"x", 4}, {"y", 4}};
  const struct {
    const char* text;
    const char* reason;
  } cases[] = {
      {"F, x", "dimension \"y\" exactly once"},          {"F, x, y, z", "names dimension \"z\""},
      {"x, x, y", "dimension \"x\" exactly once"},       {"x:2, y", "dimension \"x\" exactly once"},
      {"x:2, x:2, x:2, x:2, x, y", "more than 4 parts"},
  };
  for (const auto& one : cases) {
    const Status checked = Layout::parse(one.text).value().check(space);
    REQUIRE(!checked.ok());
    EXPECT(contains(checked.error().text(), one.reason));
  }
  EXPECT(Layout::parse("x:2, F, y:3, x, y").value().check(space).ok());
}
