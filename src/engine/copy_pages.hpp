// Copies of pages: indices along the first dimension.
#pragma once

#include "data/page_lowering.hpp"
#include "engine/copy_runner.hpp"

namespace tranship {

/// Copies each of the source's pages to the target's page at the same place in the list: as one
/// copy of an indexed nest where one channel joins the memories, else run by run.
/// @error as Engine::copy_pages()
Result<Event> copy_pages(CopyRunner& runner, Array source, Array target, const PageLists& pages,
                         const CopyOptions& options);

}  // namespace tranship
