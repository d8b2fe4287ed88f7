// Package sse carries live conversations to many clients as server-sent events: connections, write loops, and a hub
// that follows each conversation once and fans it out.
//
// # Streams
//
// A connection that has left HTTP is written to by a few loops (one per processor), not by a goroutine of its own: on
// Linux and plain TCP the descriptor is duplicated, Go's own connection is closed, and one epoll instance reports
// disconnects (at once, without a write) and sockets that have become writable. An idle stream costs a few hundred
// bytes and no goroutine. TLS and other connections get two goroutines each, behind the same type.
//
// A frame is rendered once, already framed as an HTTP chunk, and its bytes are shared by all streams that send it.
// Everything queued for a stream goes out in one write, so under load frames coalesce by themselves. Streams of mass
// fan-outs wait behind streams of small ones, so that one event to thousands of followers does not hold up tokens.
//
// The queue of a stream is bounded in frames and bytes. A durable event that does not fit ends the stream (the client
// returns with Last-Event-ID); running text is merged instead, because it can be sent later. A client that does not
// read costs at most 256 KiB in queue and kernel (plus one larger frame), and is disconnected after a while. Every
// stream gets ": ping" at a fixed interval, spread evenly, and its access is checked at the same time (Handover.Still).
//
// # Hub
//
// A topic is one followed conversation: one subscription upstream, its newest durable events in a bounded ring, and
// the running text of the active run. These rules make what a client sees gapless, free of duplicates and ordered:
//
//   - A durable event s goes to a stream only if the stream's cursor is s-1.
//   - A stream whose cursor the ring does not cover reads the log page by page on the hub's own workers, never in the
//     upstream's callback, and becomes live under the topic's lock. It continues only when its client has received what
//     was sent.
//   - A cursor ahead of the topic is checked against the log, not clamped: another node may have sent the client an
//     event that has not arrived here yet. If it is beyond the end of the log, the stream follows from the actual end.
//   - Running text carries byte offsets and goes only to streams that hold exactly the text before it. While a stream
//     catches up or its client lags, text is not queued: the client gets what it misses in larger pieces, at its own
//     pace.
//   - Text that restarts or does not continue what was sent (a recovered run) is sent again as a snapshot, which
//     replaces the client's text.
//   - On any irregularity upstream (gap, closed, other epoch) the topic subscribes again, and every stream continues
//     from its own cursor. When the conversation is deleted, or the node stops, streams end cleanly.
//
// The View that a surface supplies renders the frames.
//
// The package does not authenticate, knows no routes, stores nothing, and never clamps or invents a sequence number.
package sse
