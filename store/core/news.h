/* SPDX-License-Identifier: Apache-2.0 */
/* news.h - what operators are told of owners */
#ifndef STORE_CORE_NEWS_H
#define STORE_CORE_NEWS_H

struct tes_actions;
struct tes_core;
struct tes_session;

/* Its state has changed: whoever lends memory is worth a word. */
void tes_core_news_note(struct tes_core *core, struct tes_session *s);
/* News that are due, as far as the arena has room. */
void tes_core_news_flush(struct tes_core *core, struct tes_actions *out);

#endif
