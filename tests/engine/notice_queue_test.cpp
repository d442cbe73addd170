// How many notices wait to be read, and whose.
#include "engine/notice_queue.hpp"

#include <string>

#include "support/test.hpp"

using namespace tranship;

namespace {

fabric::CopyNotice notice_of(std::int64_t pid, const std::string& name,
                             const std::string& boot = "boot") {
  fabric::CopyNotice notice;
  notice.name = name;
  notice.sender.pid = pid;
  notice.sender.boot = boot;
  return notice;
}

bool refused(const Status& status, const std::string& part) {
  return !status && status.error().code == ErrorCode::out_of_memory &&
         status.error().text().find(part) != std::string::npos;
}

}  // namespace

TEST(each_sender_has_a_limit_of_its_own) {
  NoticeQueue queue(3);
  for (int k = 0; k < 3; ++k) EXPECT(queue.add(notice_of(1, std::to_string(k))).ok());
  EXPECT(refused(queue.add(notice_of(1, "too many")), "has not read 3 notices of this process"));
  EXPECT(queue.add(notice_of(2, "of another one")).ok());
  Identity first;
  first.pid = 1;
  first.boot = "boot";
  const auto taken = queue.take(&first);
  REQUIRE(taken.size() == 3);
  EXPECT_EQ(taken[2].name, "2");
  EXPECT(queue.add(notice_of(1, "again")).ok());
  EXPECT_EQ(queue.take(nullptr).size(), 2U);
  EXPECT(queue.take(nullptr).empty());
}

TEST(senders_without_a_machine_have_limits_too) {
  NoticeQueue queue(1);
  EXPECT(queue.add(notice_of(1, "one", "")).ok());
  EXPECT(refused(queue.add(notice_of(1, "two", "")), "1 notices of this process"));
}

TEST(all_senders_together_have_a_limit) {
  NoticeQueue queue(2);
  constexpr auto senders = static_cast<std::int64_t>(NoticeQueue::full_senders_most);
  for (std::int64_t pid = 0; pid < senders; ++pid) {
    EXPECT(queue.add(notice_of(pid, "one")).ok());
    EXPECT(queue.add(notice_of(pid, "two")).ok());
  }
  EXPECT(refused(queue.add(notice_of(1000, "one")), "has not read 32 notices,"));
  EXPECT_EQ(queue.take(nullptr).size(), static_cast<std::size_t>(2 * senders));
  EXPECT(queue.add(notice_of(1000, "one")).ok());
}

TEST(a_closed_queue_takes_nothing_and_keeps_nothing) {
  NoticeQueue queue(2);
  EXPECT(queue.add(notice_of(1, "one")).ok());
  const std::uint64_t before = queue.changes();
  queue.close();
  EXPECT(queue.changes() != before);
  EXPECT(queue.take(nullptr).empty());
  const Status late = queue.add(notice_of(1, "two"));
  REQUIRE(!late);
  EXPECT(late.error().code == ErrorCode::closed);
}
