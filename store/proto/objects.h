/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h - the columns in which messages tell of objects */
#ifndef STORE_PROTO_OBJECTS_H
#define STORE_PROTO_OBJECTS_H

#include <stdbool.h>

#include "store/proto/store.pb-c.h"

/*
 * Tells whether each column has as many entries as there are objects, and those
 * of extents as many as there are extents. Bytes of keys are not looked at.
 */
bool tes_objects_fit(const Store__Objects *m);

#endif
