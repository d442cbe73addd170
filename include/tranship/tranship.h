/* Tranship from C: the engine, which copies arrays between memories, and the client of the staging
 * service.
 *
 * Every function that can fail returns TRANSHIP_OK or a code; tranship_last_error() and
 * tranship_last_hint() return the words. docs/guides/cpp.md and
 * docs/guides/c-and-fortran.md show programs. */
#ifndef TRANSHIP_TRANSHIP_H
#define TRANSHIP_TRANSHIP_H

#include "array.h"
#include "attributes.h"
#include "engine.h"
#include "error.h"
#include "instance.h"
#include "packer.h"
#include "peers.h"
#include "staging.h"
#include "steps.h"
#include "types.h"

#endif
