/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPMUX_EXPORT_H_
#define OPMUX_EXPORT_H_

/* Marks what libopmux.so exports; everything else is hidden. C++ only (plugin.h needs no linking).
 */
#define OPMUX_API [[gnu::visibility("default")]]

#endif /* OPMUX_EXPORT_H_ */
