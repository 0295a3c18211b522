/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h - the columns in which messages tell of objects */
#ifndef STORE_PROTO_OBJECTS_H
#define STORE_PROTO_OBJECTS_H

#include <stdbool.h>

#include "store/proto/store.pb-c.h"

/*
 * Whether there is as much in each column as there are objects, and in those of
 * extents as there are extents. Of the bytes of the keys nothing is said.
 */
bool tes_objects_fit(const Store__Objects *m);

#endif
