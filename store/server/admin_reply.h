/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_reply.h - requests and answers of the admin HTTP port, as JSON
 *
 * Functions that answer return the status, for a handler to return.
 */
#ifndef STORE_SERVER_ADMIN_REPLY_H
#define STORE_SERVER_ADMIN_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/http.h"
#include "store/core/core.h"

/* Print @root and free it; NULL (out of memory): 500. */
int tes_server_admin_json(struct tei_http_reply *reply, int status,
			  json_t *root);
/* Print @root, of any kind, and free it. -ENOMEM, also for NULL. */
int tes_server_admin_print(struct evbuffer *out, json_t *root);
/* {"success":false,"error_code":..,"error_message":".."} */
int tes_server_admin_error(struct tei_http_reply *reply, int status,
			   int32_t code, const char *message);
/* The request is: 400 with code -600, worded as by printf. */
int tes_server_admin_wrong(struct tei_http_reply *reply, const char *format,
			   ...) __attribute__((format(printf, 2, 3)));
/* Answers what the port refuses by itself: as error(), with code -600. */
void tes_server_admin_refusal(int status, const char *words,
			      struct tei_http_reply *reply);
/* Answers like error(), worded for a code of the store; 404 or 400. */
int tes_server_admin_code(struct tei_http_reply *reply, int32_t code);
/*
 * The parameter @name as text, or NULL after an answer that says that it is
 * missing or holds a 0 byte.
 */
const char *tes_server_admin_text(const struct tei_http_request *request,
				  const char *name,
				  struct tei_http_reply *reply);
/* @text from outside as JSON; bytes that are no UTF-8 become '?'. */
json_t *tes_server_admin_string(const char *text);
/* The words of a code, "OBJECT_NOT_FOUND". */
const char *tes_server_code_name(int32_t code);

#define TES_SERVER_BYTES_ROOM 24
/* "1.50 GB" */
void tes_server_bytes(uint64_t n, char out[TES_SERVER_BYTES_ROOM]);

/*
 * Bodies and parameters of requests. A function that says "or 400" answers a
 * wrong request itself, with a text that says what is wrong.
 */

/* Tells whether @name is one of names[n]. */
bool tes_server_among(const char *name, const char *const *names, size_t n);
/* An object without members of one name, to be freed. NULL: or 400. */
json_t *tes_server_admin_body(const struct tei_http_request *request,
			      struct tei_http_reply *reply);
/* Tells whether all members are among names[n]; else answers 400. */
bool tes_server_admin_members(json_t *root, const char *const *names, size_t n,
			      struct tei_http_reply *reply);
/* The same of parameters, where a misspelt one could do harm. */
bool tes_server_admin_params(const struct tei_http_request *request,
			     const char *const *names, size_t n,
			     struct tei_http_reply *reply);

#endif
