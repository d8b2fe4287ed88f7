// Package live lets pages see what changes in a project's lists, without asking: streams of rows of sessions and runs.
//
// A node follows a project's feed at the owner of every shard (follow.Feed), once for all its streams, and only while there are some. An
// owner looks at rows only where its node is followed. Feeds uses the hub of package sse for the rest: it is an upstream of it, whose
// topics are the lists of a project as one kind of reader sees them, all rows or one user's.
//
// Rows, not changes: each is all that a list shows of its session or run, so that of two rows the newer one is enough, and rows can wait
// for each other. They do so twice, at the owner (a quarter of a second) and here (half a second): a session is told of twice a second at
// most, and a browser is written to as often, however much happens.
//
// A stream never claims to be complete: it begins with a marker, after which its reader reads the lists, and says reset where rows may
// have been missed (a shard has changed hands, a node fell behind, too much changed at once), whereupon the reader reads them again.
// That is what spares it a log, numbers to go on from, and a format of the store. Resets are rare by construction (resetGap), since each
// makes all readers ask at once.
package live
