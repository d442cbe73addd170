// When a client has finished a version, as far as it can be guessed.
#include "staging/client/put_progress.hpp"

#include "support/test.hpp"

using namespace tranship::staging;

namespace {

using Left = std::vector<PutProgress::Interval>;

/// Puts a box; returns whether the version is finished then, and which versions were left.
std::pair<bool, Left> put(PutProgress& progress, std::int64_t version) {
  progress.begin("v", version);
  const bool finished = progress.finishes("v", version);
  return {finished, progress.commit("v", version, finished)};
}

}  // namespace

TEST(a_version_is_finished_with_as_many_boxes_as_before) {
  PutProgress progress;
  EXPECT(put(progress, 0) == std::pair(true, Left{}));
  EXPECT(put(progress, 0) == std::pair(true, Left{}));
  EXPECT(put(progress, 1) == std::pair(false, Left{}));
  EXPECT(put(progress, 1) == std::pair(true, Left{}));
  EXPECT(put(progress, 2) == std::pair(false, Left{}));
  EXPECT(put(progress, 3) == std::pair(false, Left{{2, 2}}));  // it went on
  EXPECT(put(progress, 1) == std::pair(true, Left{}));
  progress.forget("v");
  EXPECT(put(progress, 4) == std::pair(true, Left{}));
}

TEST(a_version_is_not_finished_while_puts_of_it_go_on) {
  PutProgress progress;
  progress.begin("v", 0);
  progress.begin("v", 0);
  EXPECT(!progress.finishes("v", 0));
  EXPECT(progress.commit("v", 0, false).empty());
  progress.begin("v", 1);
  EXPECT(progress.commit("v", 1, progress.finishes("v", 1)).empty());  // one of 0 goes on
  progress.give_up("v", 0);
  EXPECT(put(progress, 2) == std::pair(true, Left{{0, 0}}));
}

TEST(versions_that_rise_are_finished_when_they_were_passed_by) {
  PutProgress progress;
  progress.let_rise();
  EXPECT(put(progress, 3) == std::pair(true, Left{}));
  EXPECT(put(progress, 7) == std::pair(true, Left{{3, 6}}));
  EXPECT(put(progress, 5) == std::pair(true, Left{}));
  EXPECT(put(progress, 8) == std::pair(true, Left{{7, 7}}));
}
