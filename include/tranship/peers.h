/* Arrays of other processes from C: an engine exports instances, and looks up those of its peers,
 * which are ends of copies as any other instance. */
#ifndef TRANSHIP_PEERS_H
#define TRANSHIP_PEERS_H

#include <stdint.h>

#include "engine.h"
#include "error.h"
#include "instance.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lets processes that connect read the instance by a name, and write it if it is writable. It stays
 * alive until tranship_withdraw() or the engine's close; so must memory that the caller gave.
 * Errors: TRANSHIP_INVALID_ARGUMENT if the name is taken, or the instance is another process's. */
TRANSHIP_API tranship_code tranship_export(tranship_engine* engine, const char* name,
                                           const tranship_instance* instance);

/* Ends an export. No other process touches the memory after it returned TRANSHIP_OK.
 * Errors: TRANSHIP_NOT_FOUND; TRANSHIP_TIMEOUT if a peer's copy takes longer than the setting
 * peer_timeout_ms: nothing new begins, but the memory must stay until that copy is over. */
TRANSHIP_API tranship_code tranship_withdraw(tranship_engine* engine, const char* name);

/* A connection to another engine. */
typedef struct tranship_peer tranship_peer;

/* Connects to another engine. contact: the file that it writes, or host:port. Free the peer.
 * Errors: TRANSHIP_NOT_FOUND for a contact file that does not exist; TRANSHIP_PEER_LOST if nothing
 * listens there; TRANSHIP_TIMEOUT. */
TRANSHIP_API tranship_code tranship_connect(tranship_engine* engine, const char* contact,
                                            double timeout, tranship_peer** peer);

/* Writes an instance of the array that the peer exports by this name, one end of a copy. Free it.
 * Errors: TRANSHIP_NOT_FOUND; TRANSHIP_PEER_LOST; TRANSHIP_TIMEOUT. */
TRANSHIP_API tranship_code tranship_peer_lookup(tranship_peer* peer, const char* name,
                                                double timeout, tranship_instance** instance);

/* Names of exported arrays at the time of tranship_peer_names(). */
typedef struct tranship_names tranship_names;

/* Asks for the names of the arrays that the peer exports now. Free them. */
TRANSHIP_API tranship_code tranship_peer_names(tranship_peer* peer, double timeout,
                                               tranship_names** names);

/* Returns how many names there are; 0 for NULL. */
TRANSHIP_API int64_t tranship_names_size(const tranship_names* names);

/* Returns name `index`, from 0, valid until the names are freed; NULL if there is none. */
TRANSHIP_API const char* tranship_names_entry(const tranship_names* names, int64_t index);

/* Frees the names. NULL is ignored. */
TRANSHIP_API void tranship_names_free(tranship_names* names);

/* Ends the connection and frees the peer. Copies to and from its arrays fail. NULL is ignored. */
TRANSHIP_API void tranship_peer_free(tranship_peer* peer);

#ifdef __cplusplus
}
#endif

#endif
