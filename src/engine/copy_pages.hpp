// Copies of pages: indices along the first dimension.
#pragma once

#include "data/page_lowering.hpp"
#include "engine/copy_lists.hpp"

namespace tranship {

/// Plans a copy of pages, as one copy of an indexed nest along one path, or run by run if pages are
/// longer than a tile; the list goes into `copy`, which is empty.
/// @error as Engine::copy_pages()
Result<ListPlan> plan_pages(CopyRunner& runner, Array source, Array target, const PageLists& pages,
                            const CopyOptions& options, IndexedCopy& copy);

}  // namespace tranship
