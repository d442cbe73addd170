// Text of unknown origin is shown in messages without control characters.
#include "base/text.hpp"

#include <random>

#include "support/test.hpp"

using namespace tranship;

TEST(plain_text_is_utf8_without_control_characters) {
  for (const char* plain : {"", "energy", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x8c\x8d", "a b~"}) {
    EXPECT(is_plain_text(plain));
    EXPECT_EQ(in_quotes(plain), "\"" + std::string(plain) + "\"");
  }
  for (const char* not_plain :
       {"\n", "\x1b[0m", "\x7f", "\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc2\x85", "\x80", "a\xe2\x82"}) {
    EXPECT(!is_plain_text(not_plain));
    EXPECT(is_plain_text(in_quotes(not_plain)));
  }
  EXPECT_EQ(in_quotes("a\n\xff"), "\"a\\x0a\\xff\"");
  EXPECT_EQ(in_quotes(std::string(100, 'x'), 10), "\"xxxxxxxxxx...\"");
}

TEST(whatever_is_quoted_is_plain_and_short) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 20000; ++k) {
    std::string text(random() % 200, ' ');
    for (char& letter : text) letter = static_cast<char>(random());
    const std::string shown = in_quotes(text, 60);
    EXPECT(is_plain_text(shown) && shown.size() <= 60 + 5);
  }
}
