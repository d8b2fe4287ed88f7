// Package peer carries bytes between the nodes of a cluster: batches of small frames (raft messages, reports), and long
// streams (snapshots, backups). It does not know what they mean, who is a member, or who owns what.
//
// # Connections
//
// There is one TCP connection per peer and direction for frames, dialled by the sender when it first has something to
// send and kept while it is used. A stream has a connection of its own, so it never delays frames. With certificates
// both ends must show one (mutual TLS 1.3). Every connection opens with a Hello each way; a foreign cluster, another
// node than was dialled, and formats that are not known are refused with a reason the other side can log.
//
// # Delivery
//
// Send never blocks and copies what it is given. Frames of one kind to one node arrive in order, at most once, and
// perhaps not at all: what does not fit in the bounded queue, what was queued for a connection that could not be made,
// and what was on its way when one broke is lost, and OnUnreachable says so. All frames that wait are written with one
// system call.
//
// # Silence
//
// A sender pings four times per Timeout and the receiver answers; whoever hears nothing for Timeout ends the connection.
// This finds a stopped process and a cable that is cut in either direction, also in the middle of a long write: a
// receiver answers while it reads. A peer that is down is dialled again after 50 ms and then less often, at once when it
// is heard of (it has dialled us, or its address is new), and not at all when nobody has sent it anything for a while.
//
// # On the wire
//
// Everything is a frame: payload length uint32, kind uint8, CRC-32C uint32 over the five bytes before it and the
// payload. The payload of a Hello is a nodepb.Hello; of a batch, frames each preceded by their length as uvarint; of
// stream data, bytes; of a stream's end, an error text or nothing. Lengths are checked before anything is allocated.
package peer
