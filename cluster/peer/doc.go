// Package peer carries bytes between the nodes of a cluster: batches of small frames (raft messages, reports), and long
// streams (snapshots, backups). It does not interpret them, and knows neither members nor owners.
//
// # Connections
//
// Frames use one TCP connection per peer and direction, which the sender dials when it first has something to send and keeps
// while it is used. Each stream has a connection of its own, so it never delays frames. With certificates, both ends must present
// one (mutual TLS 1.3). Every connection begins with a Hello in each direction. A node of another cluster, another node than the
// one dialled, unknown formats and a release that is too old for the cluster are refused, with a reason that the other side logs.
//
// # Delivery
//
// Send never blocks and copies its arguments. Frames of one kind to one node arrive in order and at most once. Frames that do not
// fit in the bounded queue, that are queued when a connection cannot be made, or that are in transit when one breaks are lost, and
// OnUnreachable is called. All waiting frames are written with one system call.
//
// # Silence
//
// A sender pings four times per Timeout and the receiver answers. A side that receives nothing for Timeout ends the connection.
// This detects a suspended process and a network that is broken in either direction, also during a long write, because a receiver
// answers while it reads. A peer that is down is dialled again after 50 ms and then less and less often; at once when it dials this
// node or its address changes; and not at all if nothing was sent to it for a while.
//
// # Wire format
//
// Everything is a frame: payload length uint32, kind uint8, CRC-32C uint32 over the five bytes before it and the
// payload. The payload of a Hello is a nodepb.Hello; of a batch, frames each preceded by their length as uvarint; of
// stream data, bytes; of a stream's end, an error text or nothing. Lengths are checked before anything is allocated.
package peer
