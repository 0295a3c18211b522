/* SPDX-License-Identifier: Apache-2.0 */
/* news.h - what operators are told of owners */
#ifndef STORE_CORE_NEWS_H
#define STORE_CORE_NEWS_H

struct tei_actions;
struct tei_core;
struct tei_session;

/* Its state has changed: whoever lends memory is worth a word. */
void tei_core_news_note(struct tei_core *core, struct tei_session *s);
/* News that are due, as far as the arena has room. */
void tei_core_news_flush(struct tei_core *core, struct tei_actions *out);

#endif
