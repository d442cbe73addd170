#include "fabric/helpers.hpp"

TEST(fabric_child) { tranship::test::child_main(); }
